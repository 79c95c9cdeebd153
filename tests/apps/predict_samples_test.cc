// `fovea predict` of a diffusion run: samples as files and as a grid.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/data/image/png.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using testing::run_fovea;

constexpr const char* kDiffusionRecipe = R"(
run: {{dir: {0}/run, seed: 3}}
device: {{type: cpu, threads: 1}}
model:
  name: diffusion_vit
  num_classes: 2
  encoder: {{img_size: 8, patch_size: 4, in_chans: 1, embed_dim: 16, depth: 1, num_heads: 2}}
task: {{name: diffusion, num_samples: 4, sampler: {{steps: 2}}}}
data:
  train:
    format: idx
    images: {0}/images
    labels: {0}/labels
    class_names: [dark, bright]
    transforms: [{{name: normalize}}]
  val:
    format: idx
    images: {0}/images
    labels: {0}/labels
    class_names: [dark, bright]
    transforms: [{{name: normalize}}]
  global_batch_size: 4
  threads: 1
trainer: {{max_steps: 2}}
)";

// A run of two steps in the folder `run`.
void train_tiny_diffusion(const data::testing::TempDir& folder) {
  testing::IdxImages(8, 8, 2, [](uint32_t i, uint32_t) { return i % 2 * 200 + i; }).write(folder);
  folder.write("recipe.yaml", fmt::format(kDiffusionRecipe, folder.path()));
  const auto trained = run_fovea("train " + folder.file("recipe.yaml"));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
}

TEST(PredictSamplesTest, WritesSamplesAndAGridThatTheSeedDecides) {
  const data::testing::TempDir folder;
  train_tiny_diffusion(folder);
  const auto draw = [&](const std::string& out, const std::string& options) {
    const auto result = run_fovea(fmt::format("predict {} --samples 3 --out {} --device cpu {}",
                                              folder.file("run"), folder.file(out), options));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  draw("first", "--seed 5");
  draw("again", "--seed 5");
  draw("other", "--seed 6");
  const auto bytes = [&](const std::string& file) { return read_file(folder.file(file), 1 << 20); };
  for (const char* name : {"sample_00000.png", "sample_00002.png", "grid.png"}) {
    EXPECT_EQ(bytes(std::string("first/") + name), bytes(std::string("again/") + name));
    EXPECT_NE(bytes(std::string("first/") + name), bytes(std::string("other/") + name));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("first/sample_00003.png")));
  const auto png = bytes("first/sample_00000.png");
  data::Image image;
  data::decode_png({reinterpret_cast<const uint8_t*>(png.data()), png.size()}, image);
  EXPECT_EQ(image.height, 8);
  EXPECT_EQ(image.width, 8);
}

TEST(PredictSamplesTest, TakesTheClassByNameAndSaysWhatItDrew) {
  const data::testing::TempDir folder;
  train_tiny_diffusion(folder);
  const auto predict = [&](const std::string& options) {
    return run_fovea(fmt::format("predict {} --samples 2 --out {} --device cpu {}",
                                 folder.file("run"), folder.file("out"), options));
  };
  const auto drawn =
      predict("--class bright --guidance 2 --sampler ddpm --steps 3 --json 2>/dev/null");
  ASSERT_EQ(drawn.exit_code, 0) << drawn.output;
  std::istringstream lines(drawn.output);
  int64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(nlohmann::json::parse(line).at("class"), "bright");
  }
  EXPECT_EQ(count, 2);
  const auto unknown = predict("--class grey");
  EXPECT_EQ(unknown.exit_code, 3);
  EXPECT_THAT(unknown.output, HasSubstr("dark, bright"));
  const auto too_many = predict("--steps 1001");
  EXPECT_EQ(too_many.exit_code, 3);
  EXPECT_THAT(too_many.output, HasSubstr("1001 sampling steps of 1000"));
  const auto with_tensor =
      run_fovea(fmt::format("predict {} {}", folder.file("run"), folder.file("images.npy")));
  EXPECT_EQ(with_tensor.exit_code, 3);
  EXPECT_THAT(with_tensor.output, HasSubstr("takes noise away from image or volume files"));
}

}  // namespace
}  // namespace fovea
