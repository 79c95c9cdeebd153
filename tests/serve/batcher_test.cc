#include "fovea/serve/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <utility>

namespace fovea::serve {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kLong = 60'000'000;  // microseconds: longer than any test

void push(Batcher& batcher, int64_t size, Clock::time_point deadline = Clock::time_point::max()) {
  auto item = std::make_unique<BatchItem>();
  item->size = size;
  item->deadline = deadline;
  batcher.push(std::move(item));
}

// The sizes that were computed together, of items that all lay in the queue before: behind a full
// batch, which is held.
std::vector<std::vector<int64_t>> batches_of(const ServeOptions& options,
                                             const std::vector<int64_t>& sizes) {
  std::promise<void> begun, go;
  std::vector<std::vector<int64_t>> batches;
  {
    Batcher batcher(
        options,
        [&](Batch&& batch) {
          auto& together = batches.emplace_back();
          for (const auto& item : batch) together.push_back(item->size);
          if (batches.size() > 1) return;
          begun.set_value();
          go.get_future().wait();
        },
        [](Batch&&) {});
    push(batcher, options.max_batch_size);
    begun.get_future().wait();
    for (const auto size : sizes) push(batcher, size);
    go.set_value();
  }
  batches.erase(batches.begin());
  return batches;
}

TEST(BatcherTest, TakesAsManyAsABatchHoldsInOrder) {
  const ServeOptions options{.max_batch_size = 4};
  EXPECT_THAT(batches_of(options, {1, 1, 1, 1, 1, 1}),
              ElementsAre(ElementsAre(1, 1, 1, 1), ElementsAre(1, 1)));
  // What does not fit is not divided, and nobody passes it.
  EXPECT_THAT(batches_of(options, {2, 3, 1, 4}),
              ElementsAre(ElementsAre(2), ElementsAre(3, 1), ElementsAre(4)));
}

TEST(BatcherTest, TheLargestPreferredSizeIsTaken) {
  const ServeOptions options{
      .max_batch_size = 8, .preferred_batch_size = {2, 4}, .max_queue_delay_microseconds = kLong};
  EXPECT_THAT(batches_of(options, {1, 1, 1, 1, 1, 1, 1}),
              ElementsAre(ElementsAre(1, 1, 1, 1), ElementsAre(1, 1), ElementsAre(1)));
}

// A batch of 3 of 4 waits; the fourth makes it whole long before the delay is over.
TEST(BatcherTest, WaitsForABatchThatCanGrow) {
  std::promise<size_t> computed;
  Batcher batcher(
      {.max_batch_size = 4, .max_queue_delay_microseconds = kLong},
      [&](Batch&& batch) { computed.set_value(batch.size()); }, [](Batch&&) {});
  auto size = computed.get_future();
  for (int i = 0; i < 3; ++i) push(batcher, 1);
  EXPECT_EQ(size.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  push(batcher, 1);
  EXPECT_EQ(size.get(), 4U);
}

TEST(BatcherTest, TheDelayEndsTheWait) {
  std::promise<size_t> computed;
  Batcher batcher(
      {.max_batch_size = 4, .max_queue_delay_microseconds = 10'000},
      [&](Batch&& batch) { computed.set_value(batch.size()); }, [](Batch&&) {});
  const auto begin = Clock::now();
  push(batcher, 1);
  EXPECT_EQ(computed.get_future().get(), 1U);
  EXPECT_GE(Clock::now() - begin, std::chrono::microseconds(10'000));
}

TEST(BatcherTest, WhatWaitsTooLongIsNotComputed) {
  std::promise<size_t> expired;
  size_t num_computed = 0;
  {
    Batcher batcher(
        {.max_batch_size = 4, .max_queue_delay_microseconds = kLong},
        [&](Batch&& batch) { num_computed += batch.size(); },
        [&](Batch&& batch) { expired.set_value(batch.size()); });
    push(batcher, 1, Clock::now() + std::chrono::milliseconds(5));
    push(batcher, 2);
    EXPECT_EQ(expired.get_future().get(), 1U);
  }
  EXPECT_EQ(num_computed, 1U);  // what is left at the end is
}

}  // namespace
}  // namespace fovea::serve
