// Configurations of other systems through the program: a recipe that holds, or one message.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fovea/core/error.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

std::string sample_file(const std::string& name) {
  return FOVEA_SOURCE_DIR "/tests/recipe_import/samples/" + name;
}

struct ImportedSample {
  std::string file, from;
};

class ConfigImportTest : public ::testing::TestWithParam<ImportedSample> {
 protected:
  data::testing::TempDir dir_;
};

TEST_P(ConfigImportTest, GivesARecipeThatHolds) {
  const auto recipe = dir_.path() + "/recipe.yaml";
  const auto imported =
      run_fovea(fmt::format("config import {} --from {} --out {}", sample_file(GetParam().file),
                            GetParam().from, recipe));
  ASSERT_EQ(imported.exit_code, 0) << imported.output;
  EXPECT_THAT(imported.output, ::testing::AnyOf(HasSubstr("changed ("), HasSubstr("mapped (")));
  const auto shown = run_fovea("config show " + recipe);
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  const auto again = run_fovea(fmt::format("config import {} --from {} --out {}",
                                           sample_file(GetParam().file), GetParam().from, recipe));
  EXPECT_EQ(again.exit_code, static_cast<int>(ExitCode::kConfig));
  EXPECT_THAT(again.output, HasSubstr("is there already"));
}

INSTANTIATE_TEST_SUITE_P(Samples, ConfigImportTest,
                         ::testing::Values(ImportedSample{"ucf.yaml", "ucf --task mae"},
                                           ImportedSample{"ucf.yaml", "ucf --task unetr"},
                                           ImportedSample{"ucf.yaml", "ucf --task sap"},
                                           ImportedSample{"ucf.yaml", "ucf --task classification"},
                                           ImportedSample{"ucf_ct.yaml", "ucf"},
                                           ImportedSample{"bionemo.yaml", "bionemo"},
                                           ImportedSample{"rosetta_pretrain.gin", "rosetta"},
                                           ImportedSample{"rosetta_finetune.gin", "rosetta"},
                                           ImportedSample{"timm.yaml", "timm"},
                                           ImportedSample{"timm.sh", "timm"},
                                           ImportedSample{"jabas.sh", "jabas"},
                                           ImportedSample{"jabas.json", "jabas"}));

// Both of Rosetta's files, and a script with two commands: recipes with phases that hold.
TEST(ConfigImportProgramTest, SeveralBecomePhases) {
  const data::testing::TempDir dir;
  const auto expect_phases = [&](const std::string& files, const std::string& from,
                                 const std::string& name) {
    const auto recipe = dir.path() + "/" + name + ".yaml";
    const auto imported =
        run_fovea(fmt::format("config import {} --from {} --out {}", files, from, recipe));
    ASSERT_EQ(imported.exit_code, 0) << imported.output;
    EXPECT_THAT(imported.output, HasSubstr("phase " + name));
    const auto shown = run_fovea("config show " + recipe);
    EXPECT_EQ(shown.exit_code, 0) << shown.output;
    EXPECT_THAT(shown.output, HasSubstr("start_from: latest"));
  };
  expect_phases(sample_file("rosetta_pretrain.gin") + " " + sample_file("rosetta_finetune.gin"),
                "rosetta", "rosetta_pretrain");
  const std::string script =
      "python train.py a --model vit_tiny_patch16_224 --opt adamw --sched step\n"
      "python train.py b --model vit_tiny_patch16_224 --opt sgd --num-classes 7 --mixup 0.8\n";
  expect_phases(dir.write("timm.sh", script), "timm", "timm");
  const auto task = "ucf --task mae";
  expect_phases(sample_file("ucf.yaml") + " " + sample_file("ucf.yaml"), task, "ucf");
}

TEST(ConfigImportProgramTest, WritesNothingWhereItIsNoRecipe) {
  const data::testing::TempDir dir;
  const std::string arguments = "train.py data --model resnet50 --opt adamw";
  dir.write("run.sh", std::vector<uint8_t>(arguments.begin(), arguments.end()));
  const auto result =
      run_fovea(fmt::format("config import {0}/run.sh --from timm --out {0}/r.yaml", dir.path()));
  EXPECT_EQ(result.exit_code, static_cast<int>(ExitCode::kConfig)) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("nothing was written"), HasSubstr("resnet50")));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/r.yaml"));
  dir.write("other.json", std::string("{\"node0\": 4}"));
  const auto other = run_fovea(
      fmt::format("config import {0}/other.json --from jabas --out {0}/r.yaml", dir.path()));
  EXPECT_EQ(other.exit_code, static_cast<int>(ExitCode::kConfig)) << other.output;
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/r.yaml"));
}

// Each turn of a loop is a file; what no flag says is what the models' own table has.
TEST(ConfigImportProgramTest, LoopsAreSeveralFiles) {
  const data::testing::TempDir dir;
  const auto script = dir.write(
      "sweep.sh", std::string("for lr in 1e-3 5e-4; do\n  ./distributed_train.sh 4 data --model "
                              "vit_base_patch16_384 --lr $lr\ndone\n"));
  const auto out = dir.path() + "/r.yaml";
  const auto imported =
      run_fovea(fmt::format("config import {} --from timm --out {}", script, out));
  ASSERT_EQ(imported.exit_code, 0) << imported.output;
  EXPECT_FALSE(std::filesystem::exists(out));
  const auto shown = run_fovea("config show " + dir.path() + "/r_lr-5e-4.yaml");
  ASSERT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, AllOf(HasSubstr("lr: 0.0005"), HasSubstr("mean: [0.5, 0.5, 0.5]"),
                                  HasSubstr("global_batch_size: 512"), HasSubstr("crop_pct: 1")));
  const auto json = run_fovea(
      fmt::format("config import {} --from timm --out {}/j.yaml --json", script, dir.path()));
  EXPECT_THAT(json.output, HasSubstr("\"recipes\""));
}

}  // namespace
}  // namespace fovea
