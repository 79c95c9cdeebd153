#include "fovea/elastic/profile/batch_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::elastic {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> batches_of(const std::vector<ComputationPoint>& points) {
  std::vector<int64_t> batches;
  for (const auto& point : points) batches.push_back(point.local_batch);
  return batches;
}

// Passes of a device that says what a batch takes.
template <class Milliseconds>
std::vector<ComputationPoint> measured(const BatchSearch& search, const Milliseconds& ms) {
  return measure_batches(search, [&](const PassShape& shape, int64_t warmup, int64_t steps) {
    EXPECT_GE(warmup, 1);
    const double pass = ms(shape.local_batch);
    return std::vector<PassTimes>(
        static_cast<size_t>(steps),
        {.data_ms = 0, .forward_ms = pass / 3, .backward_ms = 2 * pass / 3, .update_ms = 4});
  });
}

TEST(BatchSearchTest, StaticOnesArePowersOfTwoUpToTheLargest) {
  EXPECT_THAT(static_batches(1), ElementsAre(1));
  EXPECT_THAT(static_batches(8), ElementsAre(1, 2, 4, 8));
  EXPECT_THAT(static_batches(11), ElementsAre(1, 2, 4, 8, 11));
  const auto points = measured({.largest = 11}, [](int64_t batch) { return 3.0 * batch; });
  EXPECT_THAT(batches_of(points), ElementsAre(1, 2, 4, 8, 11));
  EXPECT_NEAR(points[4].forward_ms, 11, 1e-9);
  EXPECT_NEAR(points[4].backward_ms, 22, 1e-9);
  EXPECT_NEAR(points[4].update_ms, 4, 1e-9);
}

// 100 ms whatever the batch, up to 32 samples; then 10 ms a sample: larger ones are no faster.
TEST(BatchSearchTest, DynamicOnesEndWhereLargerBatchesAreNoFaster) {
  const auto ms = [](int64_t batch) {
    return 10.0 * static_cast<double>(std::max<int64_t>(10, batch));
  };
  const auto points = measured({.kind = SearchKind::kDynamic, .largest = 4096}, ms);
  const auto batches = batches_of(points);
  EXPECT_EQ(batches.back(), 32);
  // The bend at 10 lies between 8 and 16: there are more points about it.
  EXPECT_TRUE(std::any_of(batches.begin(), batches.end(), [](int64_t batch) {
    return batch > 8 && batch < 16;
  })) << ::testing::PrintToString(batches);
  EXPECT_LE(batches.size(), 20U);
  const auto few = measured({.kind = SearchKind::kDynamic, .largest = 5}, ms);
  EXPECT_EQ(few.back().local_batch, 5);
}

TEST(BatchSearchTest, OnALineThereIsNothingToAdd) {
  const auto points = measured({.kind = SearchKind::kDynamic, .largest = 64},
                               [](int64_t batch) { return 50 + 2.0 * batch; });
  EXPECT_THAT(batches_of(points), ElementsAre(1, 2, 4, 8, 16, 32, 64));
}

// Batches come in turn, and a disturbed round changes no median.
TEST(BatchSearchTest, ADisturbedRoundIsOutvoted) {
  std::map<int64_t, int> rounds;
  std::vector<int64_t> order;
  const auto points = measure_batches(
      {.largest = 4, .seconds = 0}, [&](const PassShape& shape, int64_t, int64_t steps) {
        order.push_back(shape.local_batch);
        const double factor = ++rounds[shape.local_batch] == 2 ? 10 : 1;
        return std::vector<PassTimes>(
            static_cast<size_t>(steps),
            {.forward_ms = factor * static_cast<double>(shape.local_batch), .backward_ms = factor});
      });
  EXPECT_THAT(order, ElementsAre(1, 2, 4, 1, 2, 4, 1, 2, 4));
  EXPECT_EQ(points[2].forward_ms, 4);
  EXPECT_EQ(points[2].backward_ms, 1);
}

TEST(BatchSearchTest, WhatMemoryDoesNotHoldAfterAllIsLeftOut) {
  for (const auto kind : {SearchKind::kStatic, SearchKind::kDynamic}) {
    const auto points = measure_batches(
        {.kind = kind, .largest = 64}, [&](const PassShape& shape, int64_t, int64_t steps) {
          const auto count = shape.local_batch > 20 ? 0 : static_cast<size_t>(steps);
          return std::vector<PassTimes>(count, {.forward_ms = 50.0 + shape.local_batch});
        });
    EXPECT_THAT(batches_of(points), ElementsAre(1, 2, 4, 8, 16));
  }
}

// Of each number the batches that memory holds, in turn with those of one worker.
TEST(BatchSearchTest, SeveralWorkersAreMeasuredInTurnWithOne) {
  for (const auto kind : {SearchKind::kStatic, SearchKind::kDynamic}) {
    std::vector<std::pair<int64_t, int64_t>> order;
    const auto points = measure_batches(
        {.kind = kind,
         .largest = 8,
         .largest_at_once = {{2, 4}, {4, 2}},
         .seconds = 0,
         .rounds = 2},
        [&](const PassShape& shape, int64_t, int64_t steps) {
          order.emplace_back(shape.concurrent, shape.local_batch);
          const double ms = static_cast<double>(10 * shape.concurrent + shape.local_batch);
          const auto count = shape.concurrent == 4 ? 0 : static_cast<size_t>(steps);
          return std::vector<PassTimes>(count, {.forward_ms = ms});
        });
    EXPECT_THAT(batches_of(points), ElementsAre(1, 2, 4, 8, 1, 2, 4));  // four are too many
    EXPECT_EQ(points[4].concurrent, 2);
    EXPECT_EQ(points[6].forward_ms, 24);
    if (kind == SearchKind::kDynamic) continue;
    EXPECT_THAT(order,
                ElementsAre(std::pair(1, 1), std::pair(1, 2), std::pair(1, 4), std::pair(1, 8),
                            std::pair(2, 1), std::pair(2, 2), std::pair(2, 4), std::pair(4, 1),
                            std::pair(1, 1), std::pair(1, 2), std::pair(1, 4), std::pair(1, 8),
                            std::pair(2, 1), std::pair(2, 2), std::pair(2, 4)));
  }
}

// A batch that one worker cannot have is not tried as two halves.
TEST(BatchSearchTest, SeveralWorkersHaveNoMoreThanOne) {
  int64_t most = 0;
  measure_batches({.largest = 64, .largest_at_once = {{2, 32}}},
                  [&](const PassShape& shape, int64_t, int64_t steps) {
                    const auto samples = shape.concurrent * shape.local_batch;
                    if (shape.concurrent > 1) most = std::max(most, samples);
                    const auto count = samples > 20 ? 0 : static_cast<size_t>(steps);
                    return std::vector<PassTimes>(count, {.forward_ms = 50.0 + samples});
                  });
  EXPECT_EQ(most, 30);  // one of 32 was too large
}

TEST(BatchSearchTest, APauseFollowsEachMeasurement) {
  int pauses = 0;
  measured({.largest = 2, .rounds = 2, .pause = [&] { ++pauses; }}, [](int64_t) { return 1.0; });
  EXPECT_EQ(pauses, 4);
  EXPECT_THROW(search_of("quick"), ConfigError);
  EXPECT_EQ(search_of("dynamic"), SearchKind::kDynamic);
}

}  // namespace
}  // namespace fovea::elastic
