// Finished runs that go on longer, and runs that begin with what another one left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/run_length.h"
#include "fovea/train/session.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::expect_same_run;
using testing::fit;
using ::testing::HasSubstr;
using ::testing::Not;

optim::SgdConfig sgd() {
  optim::SgdConfig config;
  config.lr = 0.01;
  config.momentum = 0.9;
  return config;
}

class LongerRunTest : public ::testing::Test {
 protected:
  LongerRunTest() : config_(testing::tiny_config(folder_)) {
    config_.schedule = {optim::ConstantScheduleConfig{}};
    config_.trainer.max_steps = 6;
    config_.trainer.ema = {.enabled = true, .decay = 0.9};
  }

  TrainConfig whole(int64_t steps) const {
    auto config = config_;
    config.run.dir = folder_.file("whole");
    config.trainer.max_steps = steps;
    return config;
  }
  std::string log() const { return read_file(config_.run.dir + "/train.log", 1 << 20); }
  static void expect_same_weights(const std::string& a, const std::string& b) {
    const auto left = load_inference(a).model->named_parameters();
    for (const auto& item : load_inference(b).model->named_parameters())
      EXPECT_TRUE(left[item.key()].equal(item.value())) << item.key();
  }

  data::testing::TempDir folder_;
  TrainConfig config_;
};

TEST_F(LongerRunTest, IsTheRunThatWasSoLongFromTheStart) {
  fit(config_);
  config_.trainer.max_steps = 11;
  config_.log.tensorboard = false;  // may change as well
  EXPECT_EQ(fit(config_).step, 11);
  fit(whole(11));
  expect_same_run(config_.run.dir, whole(11).run.dir);
  EXPECT_THAT(log(), HasSubstr("11 steps in all, 6 at the start before, 6 of them done; the "
                               "schedule is the same"));
  EXPECT_EQ(load_run_config(config_.run.dir).trainer.max_steps, 11);
}

TEST_F(LongerRunTest, SaysThatTheScheduleDiffers) {
  config_.schedule = {optim::CosineScheduleConfig{}};
  fit(config_);
  // As `fovea train RUN_DIR trainer.max_epochs=2`: five steps an epoch.
  const auto longer = load_any_config(config_.run.dir, {"trainer.max_epochs=2"});
  EXPECT_FALSE(longer.trainer.max_steps);
  EXPECT_EQ(fit(longer).step, 10);
  EXPECT_THAT(log(), AllOf(HasSubstr("10 steps in all, 6 at the start before"),
                           HasSubstr("the schedule differs"), HasSubstr("there 0)")));
  EXPECT_EQ(length_notice(longer, longer, open_training_data(longer).loader->order(), 6), "");
}

TEST_F(LongerRunTest, RefusesWhatItCannotBe) {
  fit(config_);
  config_.trainer.max_steps = 5;
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { fit(config_); }),
              HasSubstr("has done 6 steps, and is to have 5 in all"));
  config_.trainer.max_steps = 8;
  config_.run.seed = 8;
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { fit(config_); }),
              AllOf(HasSubstr("run.seed: 7 there, 8 here"), Not(HasSubstr("max_steps"))));
}

TEST_F(LongerRunTest, ANewRunTakesOverTheStateOfAnother) {
  for (const bool is_sgd : {false, true}) {  // of any optimizer
    SCOPED_TRACE(is_sgd);
    auto before = config_;
    before.run.dir = folder_.file(is_sgd ? "sgd" : "adamw");
    if (is_sgd) before.optim = {sgd()};
    fit(before);
    auto config = before;
    config.run.dir += "_on";
    config.trainer.max_steps = 11;
    config.init.optimizer = before.run.dir;
    EXPECT_EQ(fit(config).step, 11);
    auto reference = before;
    reference.run.dir += "_whole";
    reference.trainer.max_steps = 11;
    fit(reference);
    expect_same_weights(config.run.dir, reference.run.dir);
    EXPECT_EQ(testing::losses(config.run.dir).size(), 5u);
  }
}

TEST_F(LongerRunTest, NamesACheckpointAndRefusesAnother) {
  fit(config_);  // checkpoints after 4 and 6 steps
  const auto run = config_.run.dir, checkpoints = run + "/checkpoints";
  EXPECT_EQ(find_checkpoint(run).step, 6);
  EXPECT_EQ(find_checkpoint(checkpoints + "/").step, 6);
  EXPECT_EQ(find_checkpoint(checkpoints + "/step_00000004/").step, 4);
  EXPECT_EQ(find_checkpoint(checkpoints + "/latest").step, 6);
  EXPECT_FALSE(is_own_run(folder_.path()));
  EXPECT_FALSE(is_own_run(run + "/weights.safetensors"));
  EXPECT_FALSE(is_own_run(checkpoints + "/step_00000003"));

  auto other = config_;
  other.run.dir = folder_.file("other");
  other.trainer.max_steps = 9;
  other.init.optimizer = checkpoints + "/step_00000004";
  other.optim = {sgd()};
  EXPECT_THAT(data::testing::message_of<CheckpointError>([&] { fit(other); }),
              AllOf(HasSubstr("optim adamw"), HasSubstr("and sgd")));
  other.optim = config_.optim;
  other.init.weights = run;
  EXPECT_THAT(data::testing::message_of<ConfigError>([&] { fit(other); }),
              HasSubstr("leave init.weights out"));
  EXPECT_FALSE(fs::exists(other.run.dir + "/config.yaml"));
}

// The average is that of the run, or begins with its weights.
TEST_F(LongerRunTest, TheMovingAverageMayComeAndGo) {
  for (const bool has_average : {false, true}) {
    auto before = config_;
    before.run.dir = folder_.file(fmt::format("before_{}", has_average));
    before.trainer.ema.enabled = has_average;
    fit(before);
    auto config = before;
    config.run.dir += "_on";
    config.trainer.ema.enabled = !has_average;
    config.trainer.max_steps = 8;
    config.init.optimizer = before.run.dir;
    EXPECT_EQ(fit(config).step, 8);
    const auto text = read_file(config.run.dir + "/train.log", 1 << 20);
    EXPECT_THAT(text, HasSubstr(has_average ? "its averaged weights are left out"
                                            : "the moving average starts from the weights"));
  }
}

TEST_F(LongerRunTest, WeightsMayBeARun) {
  fit(config_);
  auto config = config_;
  config.init.weights = config_.run.dir;
  EXPECT_EQ(weights_path(config_.run.dir), config_.run.dir + "/weights.safetensors");
  const auto expected = load_inference(config_.run.dir).model->named_parameters();
  for (const auto& item : make_model(config, {})->named_parameters())
    EXPECT_TRUE(expected[item.key()].equal(item.value())) << item.key();
  fs::remove(config_.run.dir + "/weights.safetensors");  // stopped before its end
  EXPECT_THAT(weights_path(config_.run.dir), HasSubstr("step_00000006/ema-"));
  EXPECT_THAT(weights_path(config_.run.dir + "/checkpoints/step_00000004"),
              HasSubstr("step_00000004/ema-"));
  EXPECT_EQ(weights_path("some/file.pth"), "some/file.pth");
}

}  // namespace
}  // namespace fovea::train
