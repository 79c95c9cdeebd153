#include "fovea/elastic/profile/pass_meter.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/elastic/profile/memory_trials.h"
#include "fovea/train/evaluate/recipe_data.h"
#include "tests/train/tiny_run.h"

namespace fovea::elastic {
namespace {

using data::testing::TempDir;
using train::testing::tiny_config;

// Of a recipe that asks for them; the tests behind it have as many as before.
struct TwoThreads {
  ~TwoThreads() { at::set_num_threads(before); }
  const int before = at::get_num_threads();
};

void expect_parts(const PassTimes& step) {
  EXPECT_GT(step.data_ms, 0);
  EXPECT_GT(step.forward_ms, 0);
  EXPECT_GT(step.backward_ms, 0);
  EXPECT_GT(step.update_ms, 0);
}

TEST(PassMeterTest, StepsOfEachSizeHaveTheirParts) {
  const TempDir folder;
  auto config = tiny_config(folder);
  config.trainer.micro_batch_size = 1;  // no matter: a pass is a batch
  PassMeter meter(config, train::open_training_setup(config));
  for (const int64_t batch : {1, 3, 40}) {
    const auto steps = meter.measure({.local_batch = batch}, /*warmup=*/1, /*steps=*/3);
    ASSERT_EQ(steps.size(), 3U);
    for (const auto& step : steps) expect_parts(step);
  }
  EXPECT_EQ(meter.most_concurrent(), 1);  // with one thread there is nothing to share
  EXPECT_THROW(meter.measure({.local_batch = 1, .concurrent = 2}, 1, 1), Error);
}

TEST(PassMeterTest, PassesAtTheSameTimeHaveTheirPartsToo) {
  const TwoThreads threads;
  const TempDir folder;
  auto config = tiny_config(folder);
  config.device.threads = 2;
  PassMeter meter(config, train::open_training_setup(config));
  ASSERT_EQ(meter.most_concurrent(), 2);
  for (const int64_t concurrent : {2, 1, 2}) {
    const auto steps = meter.measure({.local_batch = 5, .concurrent = concurrent}, 1, 3);
    ASSERT_EQ(steps.size(), 3U);
    for (const auto& step : steps) expect_parts(step);
  }
}

// Passes of such a recipe wait for those of other processes.
TEST(PassMeterTest, WhatTheRecipeRefusesIsNotMeasured) {
  const TwoThreads threads;
  const TempDir folder;
  auto config = tiny_config(folder);
  config.device.threads = 2;
  config.parallel.dp_shard = 2;
  const PassMeter meter(config, train::open_training_setup(config));
  EXPECT_EQ(meter.most_concurrent(), 1);
}

TEST(PassMeterTest, NoBatchIsLargerThanTheData) {
  const TempDir folder;
  const auto config = tiny_config(folder);
  EXPECT_EQ(largest_batch_of(train::open_training_setup(config)), 100);
}

TEST(PassMeterTest, TheMedianIsOfEachPart) {
  const auto middle = median_of({{.data_ms = 1, .forward_ms = 9, .backward_ms = 2},
                                 {.data_ms = 3, .forward_ms = 5, .backward_ms = 8},
                                 {.data_ms = 2, .forward_ms = 7, .backward_ms = 4}});
  EXPECT_EQ(middle.data_ms, 2);
  EXPECT_EQ(middle.forward_ms, 7);
  EXPECT_EQ(middle.backward_ms, 4);
}

TEST(MemoryTrialsTest, TheRehearsalSaysWhatABatchAdds) {
  const TempDir folder;
  const auto bytes = analytic_bytes(tiny_config(folder), 64);
  EXPECT_GT(bytes(1), 0);
  EXPECT_GT(bytes(64), bytes(32));
  EXPECT_NEAR((bytes(64) - bytes(48)) / (bytes(48) - bytes(32)), 1, 1e-6);
}

}  // namespace
}  // namespace fovea::elastic
