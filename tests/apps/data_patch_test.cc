// `fovea data patch` and `unpatch`: a large image to tokens, and values of patches back over it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/core/files.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/files/safetensors.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
using testing::run_fovea;

std::string write_tiff(const data::testing::TempDir& folder) {
  const auto path = folder.file("image.tif");
  data::TiffWriter writer(path, {{300, 400}, 3, data::ScalarType::kUint8, "lzw"});
  std::vector<uint8_t> pixels(300 * 400 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = i / 3 % 400 < 90 ? i / 30 % 2 * 200 : 40;
  writer.write_rows(pixels, 300);
  writer.finish();
  return path;
}

TEST(DataPatchTest, PatchesAndComesBack) {
  const data::testing::TempDir folder;
  const auto out = folder.file("patches");
  const auto patched = run_fovea(fmt::format(
      "data patch {} --out {} --picture-side 200 --json fixed_length=100 patch_size=8 smoothing=1",
      write_tiff(folder), out));
  ASSERT_EQ(patched.exit_code, 0) << patched.output;
  const auto printed = nlohmann::json::parse(patched.output);
  EXPECT_EQ(printed.at("height"), 300);
  EXPECT_EQ(printed.at("channels"), 3);
  const auto leaves = printed.at("leaves").at(0).get<int64_t>();
  EXPECT_GT(leaves, 90);
  EXPECT_EQ(nlohmann::json::parse(read_file(out + "/statistics.json", 1 << 20)), printed);
  EXPECT_EQ(data::load_image(out + "/tree.png").width, 200);
  const auto file = SafetensorsFile::open(out + "/patches.safetensors");
  EXPECT_EQ(file.find("tokens")->shape, (std::vector<int64_t>{3, 100, 64}));

  std::vector<uint8_t> classes(100, 3);
  const SafetensorsEntry entry = {"classes", "U8", {100}, std::as_bytes(std::span(classes))};
  const auto values = folder.file("classes.safetensors");
  write_safetensors(values, {&entry, 1});
  const auto map = folder.file("map.tif");
  const auto unpatched = run_fovea(fmt::format("data unpatch {} {} --out {}", out, values, map));
  ASSERT_EQ(unpatched.exit_code, 0) << unpatched.output;
  const auto source = data::open_tiff(map);
  std::vector<uint8_t> pixels(300 * 400);
  source->read({0, 0, {300, 400}}, pixels);
  EXPECT_EQ(pixels, std::vector<uint8_t>(300 * 400, 3));
}

TEST(DataPatchTest, SaysWhatIsWrong) {
  const data::testing::TempDir folder;
  const auto image = write_tiff(folder);
  const auto out = folder.file("patches");
  const auto no_key = run_fovea(fmt::format("data patch {} --out {} fixed_lenth=9", image, out));
  EXPECT_EQ(no_key.exit_code, 3);
  EXPECT_THAT(no_key.output, HasSubstr("fixed_length"));
  const auto no_shape = run_fovea(fmt::format("data patch {} --out {} --dtype uint8", image, out));
  EXPECT_EQ(no_shape.exit_code, 3);
  EXPECT_THAT(no_shape.output, HasSubstr("expected HW, HWC or CHW and a size for each"));
  const auto no_image = run_fovea(fmt::format("data patch {}.no --out {}", image, out));
  EXPECT_EQ(no_image.exit_code, 4);
  EXPECT_FALSE(std::filesystem::exists(out + "/patches.safetensors"));
}

}  // namespace
}  // namespace fovea
