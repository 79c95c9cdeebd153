// Runs whose batches change their size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/train/recipe/elastic_check.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/run/run_length.h"
#include "fovea/train/session.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;
using data::testing::message_of;
using ::testing::AllOf;
using testing::fit;
using ::testing::HasSubstr;
using ::testing::Not;

// Epochs of 100 samples in batches of 24, 24, 36, 16; 36, 36, 28; 50, 50; 50, 50.
constexpr const char* kGrowing = "- {position: 48, size: 36}\n- {position: 200, size: 50}\n";
constexpr int64_t kGrowingSteps = 11;

class BatchScheduleRunTest : public ::testing::Test {
 protected:
  BatchScheduleRunTest() : config_(testing::tiny_config(folder_)) {
    config_.trainer.max_steps = {};
    config_.trainer.max_epochs = 4;
    config_.trainer.ema = {.enabled = true, .warmup = true};
    optim::CosineScheduleConfig cosine;
    cosine.warmup_steps = 6;
    config_.schedule = {cosine};
    config_.checkpoint.every_steps = 5;
    config_.checkpoint.keep = 100;
  }

  std::string write(const std::string& name, const std::string& text) {
    return folder_.write(name, text);
  }
  TrainConfig growing(const std::string& run) {
    auto config = config_;
    config.run.dir = folder_.file(run);
    config.data.batch_schedule = write("growing.yaml", kGrowing);
    return config;
  }
  static std::vector<nlohmann::json> lines_of(const std::string& run_dir, const char* split) {
    std::vector<nlohmann::json> result;
    std::ifstream lines(run_dir + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      auto record = nlohmann::json::parse(line);
      if (record.at("split") == split) result.push_back(std::move(record));
    }
    return result;
  }

  data::testing::TempDir folder_;
  TrainConfig config_;
};

TEST_F(BatchScheduleRunTest, OneSizeIsTheRunWithoutASchedule) {
  fit(config_);
  for (const char* text : {"- {position: 0, size: 24}\n", "- {position: 100, size: 24}\n"}) {
    auto config = config_;
    config.run.dir = folder_.file("one_size_" + std::string(text).substr(13, 3));
    config.data.batch_schedule = write("one_size.yaml", text);
    fit(config);
    testing::expect_same_run(config.run.dir, config_.run.dir);
    const auto lines = lines_of(config.run.dir, "train");
    const auto plain = lines_of(config_.run.dir, "train");
    ASSERT_EQ(lines.size(), 20u);
    for (size_t i = 0; i < lines.size(); ++i) {
      for (const char* key : {"step", "epoch", "lr"}) EXPECT_EQ(lines[i].at(key), plain[i].at(key));
      EXPECT_EQ(lines[i].at("global_batch"), 24);
      EXPECT_FALSE(plain[i].contains("global_batch"));
    }
    EXPECT_EQ(lines_of(config.run.dir, "val").size(), lines_of(config_.run.dir, "val").size());
  }
}

TEST_F(BatchScheduleRunTest, EverySampleComesOnceAnEpoch) {
  const auto source = open_training_data(growing("ids"));
  std::vector<std::multiset<int64_t>> epochs(4);
  for (int64_t step = 0; step < kGrowingSteps; ++step) {
    const auto batch = source.loader->next();
    epochs.at(static_cast<size_t>(batch.epoch)).insert(batch.indices.begin(), batch.indices.end());
  }
  std::multiset<int64_t> all;
  for (int64_t i = 0; i < 100; ++i) all.insert(i);
  for (const auto& epoch : epochs) EXPECT_EQ(epoch, all);
}

// Five steps of the first size are an epoch, however many it has.
TEST_F(BatchScheduleRunTest, WhatIsCountedInStepsCountsSamples) {
  const auto config = growing("growing");
  const auto result = fit(config);
  EXPECT_EQ(result.step, kGrowingSteps);
  EXPECT_EQ(result.epoch, 4);
  const std::vector<double> before = {
      0, 1, 2, 3.5, 5, 6.5, 8, 10, 12.0 + 2.0 / 24, 15, 17.0 + 2.0 / 24};
  const std::vector<double> sizes = {24, 24, 36, 36, 36, 36, 36, 50, 50, 50, 50};
  const optim::Schedule schedule(config.schedule, optim::base_lr(config.optim), 20);
  const auto lines = lines_of(config.run.dir, "train");
  ASSERT_EQ(lines.size(), before.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_DOUBLE_EQ(lines[i].at("lr"), schedule.lr(before[i])) << i;
    EXPECT_EQ(lines[i].at("global_batch"), sizes[i]) << i;
  }
  std::vector<int64_t> evaluated;
  for (const auto& line : lines_of(config.run.dir, "val")) evaluated.push_back(line.at("step"));
  EXPECT_EQ(evaluated, (std::vector<int64_t>{4, 7, 9, 11}));
  std::set<std::string> saved;
  for (const auto& entry : fs::directory_iterator(config.run.dir + "/checkpoints")) {
    if (entry.is_directory()) saved.insert(entry.path().filename().string());
  }
  for (const char* step : {"04", "07", "09", "11"}) {
    EXPECT_TRUE(saved.contains("step_000000" + std::string(step))) << step;
  }
  const auto log = read_file(config.run.dir + "/train.log", 1 << 20);
  EXPECT_THAT(log, AllOf(HasSubstr("epoch 1/4  step 4/11"), HasSubstr("epoch 2/4  step 5/11"),
                         HasSubstr("epoch 3/4  step 8/11"), HasSubstr("epoch 4/4  step 11/11"),
                         HasSubstr("0s left")));
  EXPECT_THAT(read_file(config.run.dir + "/report.html", 1 << 24),
              HasSubstr("Global batch, samples"));
}

TEST_F(BatchScheduleRunTest, GoesOnInTheMiddleBitForBit) {
  auto config = growing("stopped");
  config.trainer.eval_every_steps = 2;
  config.checkpoint.every_steps = 2;
  fit(config);
  auto whole = config;
  whole.run.dir = folder_.file("whole");
  fit(whole);
  for (const int64_t step : {6, 5, 2}) {  // within epochs
    ASSERT_TRUE(fs::exists(fmt::format("{}/checkpoints/step_{:08}", config.run.dir, step)));
    testing::go_back_to(config.run.dir, step);
    EXPECT_EQ(fit(config).step, kGrowingSteps);
    testing::expect_same_run(config.run.dir, whole.run.dir);
    EXPECT_EQ(lines_of(config.run.dir, "val").size(), lines_of(whole.run.dir, "val").size());
  }
}

TEST_F(BatchScheduleRunTest, WhatIsDoneStaysAsItWas) {
  auto config = growing("run");
  fit(config);
  testing::go_back_to(config.run.dir, 7);  // position 200
  const auto with = [&](const std::string& text) {
    config.data.batch_schedule = write("other.yaml", text);
  };
  with("- {position: 48, size: 26}\n- {position: 200, size: 50}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { fit(config); }),
              AllOf(HasSubstr("{position: 48, size: 36}"), HasSubstr("{position: 48, size: 26}"),
                    HasSubstr("before position 200")));
  config.data.batch_schedule.clear();
  EXPECT_THAT(message_of<ConfigError>([&] { fit(config); }), HasSubstr("before position 200"));
  with("- {position: 48, size: 36}\n- {position: 200, size: 25}\n");  // what lies behind may change
  EXPECT_EQ(fit(config).step, 7 + 8);
}

// As `fovea train` goes on with a run whose batches were changed while it ran.
TEST_F(BatchScheduleRunTest, TakesTheSizesThatTheRunHasLeft) {
  const auto config = growing("given");
  fit(config);
  auto left = config;
  left.run.dir = folder_.file("left");
  left.data.batch_schedule.clear();
  fs::create_directories(left.run.dir);
  fs::copy_file(folder_.file("growing.yaml"), left.run.dir + "/" + kBatchScheduleFile);
  EXPECT_EQ(fit(left).step, kGrowingSteps);
  testing::expect_same_run(left.run.dir, config.run.dir);
  EXPECT_EQ(load_run_config(left.run.dir).data.batch_schedule, "");
}

TEST_F(BatchScheduleRunTest, KnowsHowLongARunIs) {
  const auto source = open_training_data(growing("length"));
  const auto& order = source.loader->order();
  const auto length = [&](std::optional<double> epochs, std::optional<int64_t> steps) {
    auto trainer = config_.trainer;
    trainer.max_epochs = epochs;
    trainer.max_steps = steps;
    const auto found = run_length(trainer, order);
    return std::pair(found.steps, found.first_size_steps);
  };
  EXPECT_EQ(length(4, {}), std::pair(11l, 20l));
  EXPECT_EQ(length(1, {}), std::pair(4l, 5l));
  EXPECT_EQ(length(1.5, {}), std::pair(6l, 8l));  // llround(7.5) steps of 24: 5 and 72 / 24
  EXPECT_EQ(length({}, 6), std::pair(6l, 8l));
  EXPECT_EQ(length(4, 8), std::pair(8l, 12l));
  EXPECT_EQ(length(1, 8), std::pair(4l, 5l));
  EXPECT_EQ(length({}, 1), std::pair(1l, 1l));
  // A change that comes while the run goes on.
  const data::BatchSizeChange change{.position = 400, .size = 100, .where = {}};
  config_.trainer.max_epochs = 5;
  EXPECT_EQ(changed_length(config_, order, change).steps, 12);
  config_.trainer = {};
  config_.trainer.max_steps = 12;
  EXPECT_THAT(message_of<ConfigError>([&] { changed_length(config_, order, change); }),
              AllOf(HasSubstr("trainer.max_steps: found 12"), HasSubstr("schedule.total_steps")));
  config_.schedule = {optim::ConstantScheduleConfig{}};
  EXPECT_EQ(changed_length(config_, order, change).steps, 12);
}

TEST_F(BatchScheduleRunTest, RefusesWhatCannotBeExact) {
  const auto recipe = dump_config(growing("refused"));
  const auto fault = [&](const std::vector<std::string>& overrides) {
    return message_of<ConfigError>([&] { parse_config<TrainConfig>(recipe, "recipe", overrides); });
  };
  EXPECT_THAT(fault({"data.drop_last=true"}), HasSubstr("set data.drop_last=false"));
  auto config = growing("inside");
  config.data.batch_schedule = write("inside.yaml", "- {position: 50, size: 36}\n");
  EXPECT_THAT(message_of<ConfigError>([&] { fit(config); }),
              AllOf(HasSubstr("inside.yaml:1: position 50"), HasSubstr("such as 48 or 72")));
  EXPECT_FALSE(fs::exists(config.run.dir + "/config.yaml"));
}

TEST_F(BatchScheduleRunTest, SaysWhichRecipesCannotBeElastic) {
  const auto keys = [&] {
    ConfigIssues issues;
    check_elastic(config_, "launch.elastic", issues);
    std::string text;
    for (const auto& issue : issues.all()) text += issue.key + " ";
    return text;
  };
  EXPECT_EQ(keys(), "");
  config_.data.drop_last = true;
  config_.data.mixup.mixup_alpha = 0.2;
  config_.data.mixup.timm_local = true;
  config_.trainer.cache_features = "exact";
  SegmentationConfig segmentation;
  segmentation.loss.batch = true;
  config_.task = {segmentation};
  EXPECT_EQ(keys(), "data.drop_last data.mixup.timm_local trainer.cache_features task.loss ");
  data::MixConfig mix;
  config_.data.train = {mix};
  EXPECT_THAT(keys(), Not(HasSubstr("drop_last")));  // of a mix that drops nothing
  config_.data.mix = "rank_groups";
  EXPECT_THAT(keys(), AllOf(HasSubstr("drop_last"), HasSubstr("data.mix ")));
}

}  // namespace
}  // namespace fovea::train
