#include "fovea/elastic/solve/concurrent_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea::elastic {
namespace {

constexpr double kGain = 0.03;

ComputationPoint point(int64_t batch, int64_t concurrent, double ms) {
  return {.local_batch = batch,
          .concurrent = concurrent,
          .data_ms = ms / 10,
          .forward_ms = ms / 5,
          .backward_ms = 7 * ms / 10,
          .update_ms = 3};
}

// Small passes gain from company, and large ones do not: 2 take 1.2 of one's time at 4 samples,
// 2.1 at 16; 4 take 1.6 at 4.
DeviceProfile profile() {
  DeviceProfile device{.fingerprint = "d", .model = "m", .dtype = "float32"};
  device.computation = {point(4, 1, 10), point(16, 1, 40), point(4, 2, 12), point(16, 2, 84),
                        point(4, 4, 16)};
  device.memory = {{.local_batch = 4, .max_concurrent = 4},
                   {.local_batch = 16, .max_concurrent = 2}};
  return device;
}

TEST(ConcurrentChoiceTest, WhatGainsIsTaken) {
  const auto device = profile();
  EXPECT_TRUE(has_concurrent(device));
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 4}, kGain), 4);  // 32 of 80 ms
  EXPECT_EQ(best_concurrent(device, {.number = 2, .batch = 4}, kGain), 2);
  EXPECT_EQ(best_concurrent(device, {.number = 6, .batch = 4}, kGain), 4);  // 32 in place of 36 ms
  EXPECT_EQ(best_concurrent(device, {.number = 5, .batch = 4}, kGain), 4);
  EXPECT_EQ(best_concurrent(device, {.number = 3, .batch = 4}, kGain), 2);
  EXPECT_EQ(best_concurrent(device, {.number = 1, .batch = 4}, kGain), 1);
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 16}, kGain), 1);
}

// Between measured batches times lie on a line: two of 8 take 36 ms, one 20.
TEST(ConcurrentChoiceTest, BatchesBetweenMeasuredOnesAreInterpolated) {
  const auto device = profile();
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 8}, kGain), 2);
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 8}, 0.2), 1);  // a tenth is not enough
}

TEST(ConcurrentChoiceTest, MemoryAndWhatWasMeasuredAreTheLimits) {
  auto device = profile();
  device.memory = {{.local_batch = 16, .max_concurrent = 1}};
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 4}, kGain), 1);
  device.memory = {{.local_batch = 4, .max_concurrent = 3}};
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 4}, kGain), 2);
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 5}, kGain), 1);  // not known to fit
  device.computation.resize(2);
  EXPECT_FALSE(has_concurrent(device));
  EXPECT_EQ(best_concurrent(device, {.number = 8, .batch = 4}, kGain), 1);
}

}  // namespace
}  // namespace fovea::elastic
