// A timm run goes on through the program: the command that a user types, and wrong input.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "tests/apps/idx_images.h"
#include "tests/apps/program.h"
#include "tests/data/support.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_fovea;

class TakeOverProgramTest : public ::testing::Test {
 protected:
  // The model of tools/golden/make_moving_over.py.
  TakeOverProgramTest() {
    constexpr uint32_t kSide = 8;
    const testing::IdxImages images(
        40, kSide, 5, [](uint32_t i, uint32_t p) { return (i * kSide * kSide + p) * 37 % 251; });
    images.write(dir_);
    recipe_ = dir_.write(
        "recipe.yaml",
        fmt::format(
            "run: {{dir: {0}/run}}\ndevice: {{type: cpu, threads: 1}}\n"
            "model: {{name: vit, img_size: 8, patch_size: 4, in_chans: 1, embed_dim: 8, depth: 2, "
            "num_heads: 2, mlp_ratio: 2, num_classes: 5, reg_tokens: 2}}\n"
            "data:\n  train: {{format: idx, images: {0}/images, labels: {0}/labels, "
            "num_classes: 5, transforms: [{{name: normalize}}]}}\n  global_batch_size: 10\n"
            "optim: {{name: adamw, lr: 0.01, betas: [0.9, 0.95], eps: 1e-4}}\n"
            "schedule: {{name: cosine, total_steps: 30, warmup_steps: 4, warmup_lr: 1e-3, "
            "min_lr: 1e-4}}\n"
            "trainer: {{max_steps: 9}}\nlog: {{every_steps: 1, tensorboard: false}}\n",
            dir_.path()));
    fs::copy_file(FOVEA_SOURCE_DIR "/tests/golden/moving/timm.pth.tar", dir_.file("last.pth.tar"));
  }
  testing::ProgramResult train(const std::string& more = "") const {
    return run_fovea(fmt::format("train {0} init.weights={1} init.optimizer={1} {2}", recipe_,
                                 dir_.file("last.pth.tar"), more));
  }

  data::testing::TempDir dir_;
  std::string recipe_;
};

TEST_F(TakeOverProgramTest, GoesOnWhereTimmStopped) {
  const auto result = train();
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("moments of AdamW after 7 steps"),
                                   HasSubstr("going on from step 7 of 9")));
  // The run folder has what it needs: the file may be gone.
  fs::remove(dir_.file("last.pth.tar"));
  const auto without =
      run_fovea(fmt::format("train {}/run init.weights= init.optimizer=", dir_.path()));
  EXPECT_EQ(without.exit_code, 0) << without.output;
}

TEST_F(TakeOverProgramTest, SaysWhatTheRecipeHasOtherwise) {
  const auto result = train("optim.betas=[0.9,0.98] optim.weight_decay=0.1");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("betas[1] 0.95 there, 0.98 here"),
                                   HasSubstr("weight_decay 0.05 there, 0.1 here")));
}

TEST_F(TakeOverProgramTest, WrongInputIsOneErrorAndNoRun) {
  const auto expect_refused = [&](const std::string& more, ExitCode code,
                                  const std::string& message) {
    const auto result = train(more);
    EXPECT_EQ(result.exit_code, static_cast<int>(code)) << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
    EXPECT_FALSE(fs::exists(dir_.path() + "/run/config.yaml"));
  };
  expect_refused("optim.name=sgd", ExitCode::kConfig, "optim.name is sgd");
  expect_refused("trainer.max_steps=7", ExitCode::kConfig, "7 steps were done");
  expect_refused("init.weights=", ExitCode::kConfig, "init.weights names none");
  expect_refused("init.optimizer=" + dir_.file("images"), ExitCode::kData, "images");
  const auto bytes = read_file(dir_.file("last.pth.tar"), 1 << 20);
  std::ofstream(dir_.file("cut.pth"), std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  expect_refused("init.optimizer=" + dir_.file("cut.pth"), ExitCode::kData, "cut.pth");
  expect_refused("trainer.freeze=[pos_embed] model.reg_tokens=1", ExitCode::kData, "reg_token");
}

}  // namespace
}  // namespace fovea
