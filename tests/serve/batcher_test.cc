#include "fovea/serve/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

namespace fovea::serve {
namespace {

using ::testing::Contains;
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
        options, /*threads=*/1,
        [&](Batch&& batch, int64_t) {
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
      {.max_batch_size = 4, .max_queue_delay_microseconds = kLong}, /*threads=*/1,
      [&](Batch&& batch, int64_t) { computed.set_value(batch.size()); }, [](Batch&&) {});
  auto size = computed.get_future();
  for (int i = 0; i < 3; ++i) push(batcher, 1);
  EXPECT_EQ(size.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  push(batcher, 1);
  EXPECT_EQ(size.get(), 4U);
}

TEST(BatcherTest, TheDelayEndsTheWait) {
  std::promise<size_t> computed;
  Batcher batcher(
      {.max_batch_size = 4, .max_queue_delay_microseconds = 10'000}, /*threads=*/1,
      [&](Batch&& batch, int64_t) { computed.set_value(batch.size()); }, [](Batch&&) {});
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
        {.max_batch_size = 4, .max_queue_delay_microseconds = kLong}, /*threads=*/1,
        [&](Batch&& batch, int64_t) { num_computed += batch.size(); },
        [&](Batch&& batch) { expired.set_value(batch.size()); });
    push(batcher, 1, Clock::now() + std::chrono::milliseconds(5));
    push(batcher, 2);
    EXPECT_EQ(expired.get_future().get(), 1U);
  }
  EXPECT_EQ(num_computed, 1U);  // what is left at the end is
}

// Sizes of batches and their threads, of items that lay in the queue while all threads were busy;
// those that the threads have together are computed at the same time.
class SharesTest : public ::testing::Test {
 protected:
  using Shares = std::vector<std::pair<size_t, int64_t>>;

  Shares shares_of(int64_t threads, int64_t num_items, size_t at_a_time,
                   const ServeOptions& options = {.max_batch_size = 32}) {
    Shares shares;
    std::mutex mutex;
    std::condition_variable changed;
    std::promise<void> begun, go;
    {
      Batcher batcher(
          options, threads,
          [&](Batch&& batch, int64_t own) {
            std::unique_lock lock(mutex);
            shares.emplace_back(batch.size(), own);
            if (shares.size() == 1) {
              begun.set_value();
              return go.get_future().wait();
            }
            changed.notify_all();
            changed.wait(lock, [&] { return shares.size() > at_a_time; });
          },
          [](Batch&&) {});
      push(batcher, 1);
      begun.get_future().wait();
      for (int64_t i = 0; i < num_items; ++i) push(batcher, 1);
      go.set_value();
    }
    EXPECT_EQ(shares.front(), std::pair(size_t{1}, threads)) << "alone, with all threads";
    shares.erase(shares.begin());
    std::sort(shares.begin(), shares.end());
    return shares;
  }
};

TEST_F(SharesTest, EachThreadGetsAShareOfWhatWaits) {
  EXPECT_EQ(shares_of(2, 6, 2), (Shares{{3, 1}, {3, 1}}));
  EXPECT_EQ(shares_of(3, 7, 3), (Shares{{2, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(shares_of(4, 2, 2), (Shares{{1, 2}, {1, 2}}));
  EXPECT_EQ(shares_of(16, 1, 1), (Shares{{1, 16}}));
}

// Of 13 one thread takes 7; of the 6 that are left the other one leaves two, for who is done first.
TEST_F(SharesTest, WhoIsAtWorkIsLeftSome) {
  const auto shares = shares_of(2, 13, 2);
  EXPECT_THAT(shares, Contains(std::pair(size_t{7}, int64_t{1})));
  EXPECT_THAT(shares, Contains(std::pair(size_t{4}, int64_t{1})));
}

TEST_F(SharesTest, ManyThreadsShareFewBatches) {
  EXPECT_EQ(shares_of(32, 32, 8), Shares(8, {4, 4}));
}

TEST_F(SharesTest, BatchesOfPreferredSizesHaveAllThreads) {
  const ServeOptions options{.max_batch_size = 8, .preferred_batch_size = {4}};
  EXPECT_EQ(shares_of(2, 8, 1, options), (Shares{{4, 2}, {4, 2}}));
}

TEST_F(SharesTest, ADelayIsOfThemAllTogether) {
  const ServeOptions options{.max_batch_size = 6, .max_queue_delay_microseconds = 20'000};
  EXPECT_EQ(shares_of(2, 6, 2, options), (Shares{{3, 1}, {3, 1}}));
}

}  // namespace
}  // namespace fovea::serve
