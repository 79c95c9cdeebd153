// `fovea data dump`: the batches of a recipe's loader as a file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "fovea/files/safetensors.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using testing::run_fovea;

constexpr const char* kDumpRecipe =
    "run: {{dir: {0}}}\n"
    "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 1, num_classes: 4, embed_dim: 8, "
    "depth: 1, "
    "num_heads: 1}}\n"
    "data: {{train: {1}, val: {1}, global_batch_size: 6, threads: 0}}\n"
    "trainer: {{max_epochs: 1}}\n";

template <class T>
std::vector<T> dumped_values(const SafetensorsFile& file, const std::string& name) {
  const auto* entry = file.find(name);
  if (entry == nullptr) return {};
  std::vector<T> values(entry->bytes.size() / sizeof(T));
  std::memcpy(values.data(), entry->bytes.data(), entry->bytes.size());
  return values;
}

TEST(DataDumpTest, WritesTheSamplesThatTheirIndicesName) {
  const data::testing::TempDir folder;
  const testing::StripedImages images(20, 8);
  const auto recipe = folder.write(
      "recipe.yaml", fmt::format(kDumpRecipe, folder.file("run"), images.write(folder)));
  const auto out = folder.file("batches.safetensors");
  const auto dumped = run_fovea(fmt::format("data dump {} --out {} --batches 4", recipe, out));
  ASSERT_EQ(dumped.exit_code, 0) << dumped.output;
  const auto file = SafetensorsFile::open(out);
  ASSERT_NE(file.find("0.images"), nullptr);
  EXPECT_EQ(file.find("0.images")->shape, (std::vector<int64_t>{6, 1, 8, 8}));
  EXPECT_EQ(file.metadata().at("3.epoch"), "1");  // 20 samples: 3 full batches an epoch
  std::set<int64_t> seen;
  for (int batch = 0; batch < 4; ++batch) {
    const auto indices = dumped_values<int64_t>(file, fmt::format("{}.indices", batch));
    const auto labels = dumped_values<int64_t>(file, fmt::format("{}.labels", batch));
    const auto pixels = dumped_values<float>(file, fmt::format("{}.images", batch));
    ASSERT_EQ(indices.size(), 6);
    for (size_t row = 0; row < 6; ++row) {
      const auto index = static_cast<size_t>(indices[row]);
      EXPECT_EQ(labels[row], images.labels[index]);
      for (size_t p = 0; p < 64; ++p) {  // normalize: (byte / 255 - 0.5) / 0.5
        ASSERT_EQ(std::lround((pixels[row * 64 + p] * 0.5 + 0.5) * 255),
                  images.pixels[index * 64 + p]);
      }
      if (batch < 3) seen.insert(indices[row]);
    }
  }
  EXPECT_EQ(seen.size(), 18);  // each sample once an epoch

  const auto part = folder.file("part.safetensors");
  const auto second = run_fovea(
      fmt::format("data dump {} --out {} --first 2 --ranks 3 --rank 1 --uint8", recipe, part));
  ASSERT_EQ(second.exit_code, 0) << second.output;
  const auto rows = SafetensorsFile::open(part);
  EXPECT_EQ(dumped_values<int64_t>(rows, "2.rows"), (std::vector<int64_t>{2, 3}));
  const auto bytes = dumped_values<uint8_t>(rows, "2.images");
  ASSERT_EQ(bytes.size(), 128);
  const auto first = static_cast<size_t>(dumped_values<int64_t>(rows, "2.indices")[0]);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.begin() + 64, images.pixels.begin() + first * 64));
}

TEST(DataDumpTest, SaysWhatIsWrong) {
  const data::testing::TempDir folder;
  const testing::StripedImages images(8, 8);
  const auto recipe = folder.write(
      "recipe.yaml", fmt::format(kDumpRecipe, folder.file("run"), images.write(folder)));
  const auto out = folder.file("out.safetensors");
  const auto rank = run_fovea(fmt::format("data dump {} --out {} --rank 2 --ranks 2", recipe, out));
  EXPECT_EQ(rank.exit_code, 3);
  EXPECT_THAT(rank.output, HasSubstr("less than --ranks 2"));
  const auto no_bytes = run_fovea(fmt::format(
      "data dump {} --out {} --uint8 'data.train.transforms=[normalize, random_erasing]'", recipe,
      out));
  EXPECT_EQ(no_bytes.exit_code, 3);
  EXPECT_THAT(no_bytes.output, HasSubstr("--uint8"));
}

}  // namespace
}  // namespace fovea
