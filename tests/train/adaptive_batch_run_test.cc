// Runs whose batch follows the gradients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/order/batch_schedule.h"
#include "fovea/train/recipe/run_folder.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using data::testing::message_of;
using ::testing::AllOf;
using testing::fit;
using ::testing::HasSubstr;

class AdaptiveBatchRunTest : public ::testing::Test {
 protected:
  AdaptiveBatchRunTest() : config_(testing::tiny_config(folder_)) {
    config_.trainer.max_steps = {};
    config_.trainer.max_epochs = 4;
    config_.trainer.ema = {.enabled = true, .warmup = true};
    config_.data.global_batch_size = 8;
    config_.parallel.slots = 4;
    config_.checkpoint.every_steps = 4;
    config_.checkpoint.keep = 100;
    auto& elastic = config_.elastic;
    elastic.batch_size_upper_bound = 20;
    elastic.similarity_target = 0.8;  // out of reach: it grows
    elastic.batch_size_adjust_interval = 8;
    elastic.batch_size_adjust_rate = 0.5;
  }

  static std::vector<nlohmann::json> lines_of(const std::string& run_dir) {
    std::vector<nlohmann::json> result;
    std::ifstream lines(run_dir + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      auto record = nlohmann::json::parse(line);
      if (record.at("split") == "train") result.push_back(std::move(record));
    }
    return result;
  }
  static std::vector<double> column(const std::string& run_dir, const char* name) {
    std::vector<double> values;
    for (const auto& line : lines_of(run_dir)) values.push_back(line.at(name));
    return values;
  }

  data::testing::TempDir folder_;
  TrainConfig config_;
};

TEST_F(AdaptiveBatchRunTest, GrowsAtLooksUpToItsBound) {
  fit(config_);
  const auto lines = lines_of(config_.run.dir);
  std::set<int64_t> sizes;
  int64_t size = 8;
  for (const auto& line : lines) {
    const int64_t batch = line.at("global_batch");
    const auto step = line.at("step").get<int64_t>();
    if (batch != size) {
      EXPECT_EQ(step % 8, 1) << "behind a look";
      EXPECT_EQ(batch, std::min<int64_t>(20, std::llround(1.5 * static_cast<double>(size))));
      size = batch;
    }
    sizes.insert(batch);
    const double similarity = line.at("similarity");
    EXPECT_LT(std::abs(similarity), 1) << step;
    EXPECT_FALSE(line.contains("noise_scale"));
  }
  EXPECT_THAT(sizes, ::testing::ElementsAre(8, 12, 18, 20));
  // The rate is that of the schedule where the run stands, by the root of the batch.
  const auto lr = column(config_.run.dir, "lr"), batches = column(config_.run.dir, "global_batch");
  const auto base = optim::base_lr(config_.optim);
  const double first_size_steps = 4 * 13;  // of 100 samples in batches of 8
  const optim::Schedule schedule(config_.schedule, base, std::llround(first_size_steps));
  EXPECT_DOUBLE_EQ(lr[0], schedule.lr(0));
  EXPECT_DOUBLE_EQ(lr[8], schedule.lr(8) * std::sqrt(12.0 / 8));
  // The sizes are there for another run.
  const auto schedule_file = config_.run.dir + "/batch_schedule.yaml";
  EXPECT_EQ(data::read_batch_schedule(schedule_file).size(), 4u);
  EXPECT_THAT(read_file(config_.run.dir + "/report.html", 1 << 24),
              AllOf(HasSubstr("Global batch, samples"), HasSubstr("Similarity of a batch")));
  auto same = config_;
  same.run.dir = folder_.file("same");
  same.elastic.enable_adjust = false;
  same.data.batch_schedule = schedule_file;
  fit(same);
  EXPECT_EQ(column(same.run.dir, "global_batch"), batches);
  EXPECT_FALSE(lines_of(same.run.dir).front().contains("similarity"));
  EXPECT_EQ(column(same.run.dir, "loss")[8],
            column(config_.run.dir, "loss")[8]);  // before its rate
}

TEST_F(AdaptiveBatchRunTest, GoesOnAnywhereBitForBit) {
  auto whole = config_;
  whole.run.dir = folder_.file("whole");
  const auto steps = fit(whole).step;
  fit(config_);
  // At a look, and within what is measured, when a later part of the run is known.
  for (const int64_t step : {24, 12}) {
    testing::go_back_to(config_.run.dir, step);
    EXPECT_EQ(fit(config_).step, steps);
    testing::expect_same_run(config_.run.dir, whole.run.dir);
    for (const char* name : {"similarity", "global_batch", "lr"}) {
      EXPECT_EQ(column(config_.run.dir, name), column(whole.run.dir, name)) << name;
    }
    EXPECT_EQ(read_file(config_.run.dir + "/batch_schedule.yaml", 1 << 20),
              read_file(whole.run.dir + "/batch_schedule.yaml", 1 << 20));
  }
}

TEST_F(AdaptiveBatchRunTest, MetricNoiseFollowsTheNoiseScale) {
  config_.elastic.metric = "noise";
  config_.elastic.similarity_target = {};
  config_.trainer.max_epochs = 2;
  fit(config_);
  EXPECT_GT(lines_of(config_.run.dir).size(), 8u);
  for (const auto& line : lines_of(config_.run.dir)) {
    EXPECT_TRUE(line.contains("similarity"));
    if (!line.contains("noise_scale")) continue;  // it is not finite
    EXPECT_GE(line.at("noise_scale"), 0);
  }
}

// What measuring costs where nothing asks for it: nothing, and it changes no bit.
TEST_F(AdaptiveBatchRunTest, MeasuringChangesNoBit) {
  config_.trainer.max_epochs = 2;
  config_.elastic.batch_size_upper_bound = 8;
  fit(config_);
  auto plain = config_;
  plain.run.dir = folder_.file("plain");
  plain.elastic.enable_adjust = false;
  fit(plain);
  testing::expect_same_run(config_.run.dir, plain.run.dir);
}

TEST_F(AdaptiveBatchRunTest, RefusesWhatDoesNotGoWithIt) {
  const auto refusal = [&](const std::function<void(TrainConfig&)>& change) {
    auto config = config_;
    config.schedule = {optim::CosineScheduleConfig{}};
    change(config);
    const auto text = dump_config(config);
    return message_of<ConfigError>([&] { parse_config<TrainConfig>(text, "recipe"); });
  };
  EXPECT_NO_THROW(parse_config<TrainConfig>(dump_config(config_), "recipe"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.parallel.slots = 1; }),
              AllOf(HasSubstr("parallel.slots"), HasSubstr("2 or more")));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.parallel.slots = 9; }),
              AllOf(HasSubstr("elastic.batch_size_lower_bound"), HasSubstr("slots=9")));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.elastic.batch_size_lower_bound = 21; }),
              HasSubstr("above batch_size_upper_bound, 20"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.elastic.batch_size_upper_bound = {}; }),
              HasSubstr("elastic.batch_size_upper_bound"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.data.global_batch_size = 24; }),
              AllOf(HasSubstr("data.global_batch_size"), HasSubstr("between the bounds")));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.elastic.similarity_target = 1; }),
              HasSubstr("between 0 and 1"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.parallel.dp_shard = 2; }),
              HasSubstr("parallel.dp_shard"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.data.drop_last = true; }),
              HasSubstr("data.drop_last=false"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.data.batch_schedule = "sizes.yaml"; }),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(refusal([](TrainConfig& c) { c.trainer.max_steps = 10; }),
              HasSubstr("trainer.max_steps"));
  config_.elastic.enable_adjust = false;
  config_.parallel.slots = 0;
  EXPECT_NO_THROW(parse_config<TrainConfig>(dump_config(config_), "recipe"));
}

// Numbers of a run follow from these keys; a run does not go on with others.
TEST_F(AdaptiveBatchRunTest, TheRuleIsPartOfTheRun) {
  auto other = config_;
  other.elastic.similarity_target = 0.7;
  EXPECT_NE(course_of(other), course_of(config_));
  auto free = config_;
  free.elastic.min_workers = 2;
  free.elastic.gpu_cluster_info = "cluster.json";
  EXPECT_EQ(course_of(free), course_of(config_));
}

}  // namespace
}  // namespace fovea::train
