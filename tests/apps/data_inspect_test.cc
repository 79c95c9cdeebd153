// fovea data inspect, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_fovea;

class DataInspectTest : public ::testing::Test {
 protected:
  DataInspectTest() {
    for (int i = 0; i < 8; ++i) {
      write_image(fmt::format("train/{}/{}.png", i % 2 == 0 ? "cat" : "dog", i), 30 * i);
    }
    write_image("val/cat/a.png", 60);  // train has it
    write_image("val/dog/b.png", 7);
    recipe_ = dir_.write(
        "recipe.yaml",
        fmt::format(
            "run: {{dir: {0}/run}}\n"
            "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 3, num_classes: 2,\n"
            "        embed_dim: 32, depth: 1, num_heads: 2}}\n"
            "data:\n"
            "  train: {{format: folder, path: {0}/train, transforms: [{{name: random_crop, size: "
            "8}},"
            " normalize]}}\n"
            "  val: {{format: folder, path: {0}/val, transforms: [{{name: center_crop, size: 8}},"
            " normalize]}}\n"
            "  global_batch_size: 2\n"
            "trainer: {{max_steps: 1}}\n",
            dir_.path()));
  }

  void write_image(const std::string& name, int value) const {
    const data::Image image = {10, 12, 3, std::vector<uint8_t>(360, static_cast<uint8_t>(value))};
    dir_.write(name, data::encode_png(image));
  }
  testing::ProgramResult inspect(const std::string& arguments) const {
    return run_fovea("data inspect " + arguments + " --out " + dir_.path() + "/out");
  }
  bool has(const char* file) const { return fs::exists(dir_.path() + "/out/" + file); }

  data::testing::TempDir dir_;
  std::string recipe_;
};

TEST_F(DataInspectTest, RecipeWithEverything) {
  const auto result = inspect(recipe_ + " --tree --samples 6 --draws 3");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("8 images"), HasSubstr("10 x 12, all"),
                    HasSubstr("1 sample of val is in train too (cat 1)"),
                    HasSubstr("2, 4 samples each, none missing"), HasSubstr("name: normalize")));
  for (const char* file : {"inspect.html", "contact_sheet.png", "augmented.png", "tree.png"}) {
    EXPECT_TRUE(has(file)) << file;
  }
}

TEST_F(DataInspectTest, OneSectionAsJson) {
  const auto result = inspect(recipe_ + " --section val --json");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto found = nlohmann::json::parse(result.output);
  ASSERT_EQ(found["sets"].size(), 1u);
  EXPECT_EQ(found["sets"][0]["name"], "val");
  EXPECT_EQ(found["sets"][0]["num_samples"], 2);
  EXPECT_EQ(found["sets"][0]["class_counts"], nlohmann::json({1, 1}));
  EXPECT_NEAR(found["sets"][0]["moments"][0]["mean"].get<double>(), (60 + 7) / 2.0 / 255, 1e-12);
}

TEST_F(DataInspectTest, BrokenFilesAreNamedAndTellTheExitCode) {
  dir_.write("train/dog/broken.png", std::string("\x89PNG\r\n\x1a\nno more"));
  const auto result = inspect(recipe_);
  EXPECT_EQ(result.exit_code, static_cast<int>(ExitCode::kData)) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("1 sample cannot be read"), HasSubstr("broken.png")));
  EXPECT_TRUE(has("inspect.html"));
}

TEST_F(DataInspectTest, FoldersWithoutARecipe) {
  const auto result = inspect(dir_.path() + "/train --max-samples 4");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("all numbers are of 4 of them"));
  EXPECT_FALSE(has("augmented.png"));
  EXPECT_FALSE(has("tree.png"));
}

TEST_F(DataInspectTest, Mistakes) {
  const auto code = [](ExitCode one) { return static_cast<int>(one); };
  EXPECT_EQ(inspect(dir_.path() + "/train --section val").exit_code, code(ExitCode::kConfig));
  EXPECT_EQ(inspect(dir_.path() + "/none").exit_code, code(ExitCode::kData));
  const auto tree = inspect(recipe_ + " --tree='{fixed_lenght: 3}'");
  EXPECT_EQ(tree.exit_code, code(ExitCode::kConfig));
  EXPECT_THAT(tree.output, AllOf(HasSubstr("fixed_lenght"), HasSubstr("fixed_length")));
}

}  // namespace
}  // namespace fovea
