// fovea predict of a classifier: files, folders of them, lists and data sets.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/image/png.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"
#include "tests/support/html_checker.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::run_fovea;

class PredictClassesTest : public ::testing::Test {
 protected:
  PredictClassesTest() {
    for (int i = 0; i < 8; ++i) {
      const auto name = fmt::format("set/{}/{}.png", i % 2 == 0 ? "dark" : "light", i);
      write_image(name, i % 2 == 0 ? 20 + i : 220 + i);
    }
    const auto set =
        fmt::format("{{format: folder, path: {}/set, transforms: [normalize]}}", dir_.path());
    recipe_ = dir_.write(
        "recipe.yaml",
        fmt::format(
            "run: {{dir: {0}/run}}\ndevice: {{type: cpu, threads: 1}}\n"
            "model: {{name: vit, img_size: 8, patch_size: 4, num_classes: 2, embed_dim: 16, "
            "depth: 1, num_heads: 2}}\n"
            "data: {{train: {1}, val: {1}, global_batch_size: 4, threads: 1}}\n"
            "trainer: {{max_steps: 2}}\n",
            dir_.path(), set));
  }

  void write_image(const std::string& name, int value) const {
    dir_.write(name,
               data::encode_png({8, 8, 3, std::vector<uint8_t>(192, static_cast<uint8_t>(value))}));
  }
  std::string run() const { return dir_.path() + "/run"; }
  testing::ProgramResult predict(const std::string& arguments) const {
    return run_fovea(fmt::format("predict {} {} --device cpu", run(), arguments));
  }

  static std::vector<nlohmann::json> lines_of(const std::string& text) {
    std::vector<nlohmann::json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with('{')) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  static std::vector<std::string> inputs_of(const std::vector<nlohmann::json>& lines) {
    std::vector<std::string> inputs;
    for (const auto& line : lines) inputs.push_back(line.at("input"));
    return inputs;
  }

  data::testing::TempDir dir_;
  std::string recipe_;
};

TEST_F(PredictClassesTest, FoldersAndWhatCannotBeRead) {
  ASSERT_EQ(run_fovea("train " + recipe_).exit_code, 0);
  const auto folder = dir_.path() + "/new";
  write_image("new/b.png", 30);
  write_image("new/deep/er/a.png", 230);
  dir_.write("new/deep/broken.jpg", std::string("no picture"));
  dir_.write("new/.hidden.png", std::string());
  dir_.write("new/notes.txt", std::string());
  const auto out = dir_.file("out.jsonl");
  const auto result = predict(folder + " --json --out " + out);
  EXPECT_EQ(result.exit_code, static_cast<int>(ExitCode::kData)) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("cannot be read: "), HasSubstr("deep/broken.jpg"),
                                   HasSubstr("1 of 3 inputs cannot be read")));
  const auto lines = lines_of(result.output);
  EXPECT_THAT(inputs_of(lines), ElementsAre(folder + "/b.png", folder + "/deep/broken.jpg",
                                            folder + "/deep/er/a.png"));
  EXPECT_EQ(lines[0].at("classes").size(), 2);
  EXPECT_THAT(lines[1].at("error").get<std::string>(), HasSubstr("broken.jpg"));
  EXPECT_EQ(lines_of(read_file(out, 1 << 20)), lines);
  const auto maps = run_fovea(
      fmt::format("explain {} {} --out {} --device cpu", run(), folder, dir_.file("maps")));
  EXPECT_EQ(maps.exit_code, static_cast<int>(ExitCode::kData)) << maps.output;
  EXPECT_THAT(maps.output, AllOf(HasSubstr("cannot be read: "), HasSubstr("b_rollout.png")));
  EXPECT_TRUE(std::filesystem::exists(dir_.file("maps") + "/deep/er/a_rollout.png"));
  // A TIFF file fails alone too, and one of a kind that is not read by region is decoded: only its
  // size is not the model's.
  const auto cut = dir_.write("cut.tif", std::string("II*", 4) + "and no more");
  const auto tiffs = predict(folder + "/b.png " + cut + " --json");
  EXPECT_EQ(tiffs.exit_code, static_cast<int>(ExitCode::kData)) << tiffs.output;
  EXPECT_THAT(tiffs.output, HasSubstr("1 of 2 inputs cannot be read"));
  EXPECT_EQ(lines_of(tiffs.output).at(0).at("classes").size(), 2);
  const auto palette =
      dir_.write("palette.tif", data::testing::golden("file.palette", "data_tiff_images").bytes);
  EXPECT_THAT(predict(palette).output, HasSubstr("images came as [1, 3, 21, 35]"));
  // One input that cannot be read is the error itself, as is a folder without an image.
  EXPECT_THAT(predict(folder + "/deep/broken.jpg").output, HasSubstr("error: "));
  dir_.write("none/a.txt", std::string("x"));
  const auto none = predict(dir_.path() + "/none");
  EXPECT_EQ(none.exit_code, static_cast<int>(ExitCode::kData));
  EXPECT_THAT(none.output, HasSubstr("none: no image (.jpg, .jpeg, .png"));
}

// The scores of one image are the same, however it is named.
TEST_F(PredictClassesTest, ListsAndDataSets) {
  ASSERT_EQ(run_fovea("train " + recipe_).exit_code, 0);
  const auto whole = lines_of(predict(dir_.path() + "/set --json").output);
  ASSERT_EQ(whole.size(), 8u);
  const auto list = dir_.write("set/list.csv", std::string("path\nlight/7.png\ndark/2.png\n"));
  const auto listed = lines_of(predict(list + " --json").output);
  EXPECT_THAT(inputs_of(listed),
              ElementsAre(dir_.path() + "/set/light/7.png", dir_.path() + "/set/dark/2.png"));
  EXPECT_EQ(listed[1].at("classes"), whole[1].at("classes"));
  // Side by side in a raw file, which is read window by window.
  std::string pixels;
  for (int row = 0; row < 8; ++row) pixels += std::string(24, '\x16') + std::string(24, '\xe3');
  const auto raw = dir_.write("both.raw", pixels);
  const auto arguments = fmt::format(
      "{} --raw-dtype uint8 --raw-shape 8 16 3 --raw-axes HWC --out {}", raw, dir_.file("large"));
  const auto large = predict(arguments + " --json");
  ASSERT_EQ(large.exit_code, 0) << large.output;
  std::map<std::string, int> voxels;
  for (const auto& line : listed) voxels[line.at("classes")[0].at("class")] += 64;
  const auto page = read_file(dir_.file("large") + "/both_overview.html", 1 << 20);
  const auto html = support::check_html(page);
  EXPECT_EQ(html.fault, "");
  EXPECT_THAT(html.text, HasSubstr("both.raw"));
  for (const auto& found : lines_of(large.output).at(0).at("classes")) {
    EXPECT_EQ(found.at("voxels"), voxels[found.at("class")]) << found;
    EXPECT_EQ(found.at("share"), voxels[found.at("class")] / 128.0);
    const bool is_first = found.at("class") == "dark";
    EXPECT_EQ(found.at("color"), is_first ? nlohmann::json() : nlohmann::json("#e69f00"));
    if (found.at("voxels") == 0) continue;
    EXPECT_THAT(html.text, HasSubstr(fmt::format("{} pixels)", voxels[found.at("class")])));
    EXPECT_THAT(page, HasSubstr(is_first ? "dark" : "rgb(230,159,0)"));
  }
  EXPECT_TRUE(std::filesystem::exists(dir_.file("large") + "/both_scores.npy"));
  EXPECT_THAT(predict(arguments).output, HasSubstr("predicting both.raw 2/2"));
  // A folder is its images, and what is written of them lies as they do.
  const auto folder =
      lines_of(predict(dir_.path() + "/set --large --json --out " + dir_.file("each")).output);
  ASSERT_EQ(folder.size(), 8u);
  EXPECT_EQ(inputs_of(folder), inputs_of(whole));
  EXPECT_TRUE(std::filesystem::exists(dir_.file("each") + "/light/7_mask.tif"));
  dir_.write("none/a.txt", std::string("x"));
  const auto none = predict(dir_.path() + "/none --large");
  EXPECT_EQ(none.exit_code, static_cast<int>(ExitCode::kData));
  EXPECT_THAT(none.output, HasSubstr("none: no image and no slide in it or below it"));
  const auto packed = dir_.path() + "/packed";
  const auto pack = run_fovea(fmt::format("data pack {} --out {}", recipe_, packed));
  ASSERT_EQ(pack.exit_code, 0) << pack.output;
  const auto from_packed = predict(packed + "/val --json");
  ASSERT_EQ(from_packed.exit_code, 0) << from_packed.output;
  const auto lines = lines_of(from_packed.output);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[1].at("classes"), whole[1].at("classes"));
  // Both sets that a recipe was packed to, as `data check` and `data inspect` take them.
  EXPECT_EQ(lines_of(predict(packed + " --json").output).size(), 16u);
  const auto checked = run_fovea("data check " + packed);
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_THAT(checked.output,
              AllOf(HasSubstr("train: 8 samples, 0 damaged"), HasSubstr("val: 8 samples")));
  EXPECT_THAT(run_fovea("data check " + list).output, HasSubstr("2 samples, 0 damaged"));
  const auto evaluated = run_fovea(
      fmt::format("eval {} data.val.format=packed data.val.path={}/val --json", run(), packed));
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.output;
  EXPECT_THAT(evaluated.output, HasSubstr("\"num_samples\":8"));
}

TEST_F(PredictClassesTest, AValidationFolderMayLackAClass) {
  write_image("val/light/1.png", 225);
  std::filesystem::create_directories(dir_.path() + "/val/dark");
  const auto val = " data.val.path=" + dir_.path() + "/val";
  const auto trained = run_fovea("train " + recipe_ + val);
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  const auto evaluated = run_fovea("eval " + run() + val + " --json");
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.output;
  // Its only sample is light, class 1, though it is the first folder there.
  const auto predicted = lines_of(predict(dir_.path() + "/val --json").output);
  const bool is_light = predicted.at(0).at("classes")[0].at("class") == "light";
  EXPECT_EQ(nlohmann::json::parse(evaluated.output).at("top1"), is_light ? 100 : 0);
  std::filesystem::remove(dir_.path() + "/val/dark");
  EXPECT_EQ(run_fovea("eval " + run() + val + " --json").output, evaluated.output);
  write_image("val/grey/1.png", 125);
  const auto unknown = run_fovea("eval " + run() + val);
  EXPECT_EQ(unknown.exit_code, static_cast<int>(ExitCode::kConfig));
  EXPECT_THAT(unknown.output, HasSubstr("data.val: the class 'grey' is none of the 2"));
}

}  // namespace
}  // namespace fovea
