#include "fovea/elastic/profile/memory_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fovea::elastic {
namespace {

// A device of which a step takes what is said, that the rehearsal knows a part of.
struct MadeUpDevice {
  double limit = 10'000;
  double base = 1000;      // of libraries, which the rehearsal does not know
  double of_sample = 13;   // the rehearsal says 10
  int64_t steep_from = 0;  // from this batch on a sample takes twice as much; 0: never
  int calls = 0;

  double bytes(int64_t batch) const {
    const auto more = steep_from > 0 ? std::max<int64_t>(0, batch - steep_from) : 0;
    return base + of_sample * static_cast<double>(batch + more);
  }
  std::vector<MemoryTrial> run(const std::vector<int64_t>& batches) {
    ++calls;
    std::vector<MemoryTrial> trials;
    for (const auto batch : batches) {
      const bool fits = bytes(batch) <= limit;
      trials.push_back({.batch = batch,
                        .fits = fits,
                        .peak_bytes = fits ? static_cast<int64_t>(bytes(batch)) : 0});
      if (!fits) break;
    }
    return trials;
  }
  MemorySearch search(int64_t most, double of_loader = 0, double of_gradients = 0) const {
    return {.most = most,
            .limit_bytes = limit,
            .analytic = [](int64_t b) { return 50 + 10.0 * b; },
            .bytes_of_sample = of_loader,
            .bytes_of_gradients = of_gradients};
  }
  LargestBatch find(int64_t most, double of_loader = 0) {
    return find_largest_batch(search(most, of_loader),
                              [this](const auto& batches) { return run(batches); });
  }
};

TEST(MemorySearchTest, OneTrialAtTheEdgeIsEnoughWhereTheLineHolds) {
  MadeUpDevice device;
  const auto found = device.find(4096);
  EXPECT_EQ(found.local_batch, 692);  // 1000 + 13 * 692 = 9996
  EXPECT_EQ(device.calls, 2);
  EXPECT_EQ(found.trials.back().batch, 692);
  EXPECT_TRUE(found.trials.back().fits);
}

TEST(MemorySearchTest, TheLargestThatIsAskedForIsTriedToo) {
  MadeUpDevice device;
  const auto found = device.find(256);
  EXPECT_EQ(found.local_batch, 256);
  EXPECT_EQ(found.trials.back().batch, 256);
  EXPECT_EQ(device.find(1).local_batch, 1);
  EXPECT_EQ(device.find(2).local_batch, 2);
}

TEST(MemorySearchTest, WhatTheLineDoesNotKnowIsFoundByTrials) {
  MadeUpDevice device{.steep_from = 300};
  const auto found = device.find(4096);
  // 1000 + 13 (2 b - 300) <= 10000: 496.
  EXPECT_LE(found.local_batch, 496);
  EXPECT_GE(found.local_batch, 446);  // a tenth under what does not fit
  EXPECT_LE(device.calls, 8);
  bool is_at_edge = false;
  for (const auto& trial : found.trials) {
    if (!trial.fits) is_at_edge = is_at_edge || trial.batch <= found.local_batch * 10 / 9 + 1;
  }
  EXPECT_TRUE(is_at_edge);
}

TEST(MemorySearchTest, SmallMemoriesHaveSmallBatches) {
  for (const int64_t holds : {1, 2, 3, 7}) {
    MadeUpDevice device;
    device.limit = device.bytes(holds);
    EXPECT_EQ(device.find(4096).local_batch, holds);
  }
  MadeUpDevice none;
  none.limit = none.base;
  const auto found = none.find(4096);
  EXPECT_EQ(found.local_batch, 0);
  ASSERT_EQ(found.trials.size(), 1U);
  EXPECT_FALSE(found.trials[0].fits);
}

TEST(MemorySearchTest, TheLoadersBatchesTakeTheirPart) {
  MadeUpDevice device;
  const auto found = device.find(4096, /*of_loader=*/5);
  EXPECT_EQ(found.local_batch, 500);  // 1000 + 18 * 500 = 10000
}

// As many samples as one pass has at most, and the gradients of each besides.
TEST(MemorySearchTest, PassesAtTheSameTimeHaveTheirGradients) {
  MadeUpDevice device;
  const auto found = device.find(4096);
  ASSERT_EQ(found.local_batch, 692);
  const auto none = device.search(4096), some = device.search(4096, 0, /*of_gradients=*/500);
  EXPECT_EQ(passes_held(none, found, 100, 16), 6);
  EXPECT_EQ(passes_held(none, found, 100, 4), 4);
  EXPECT_EQ(passes_held(some, found, 100, 16), 5);  // 1000 + n (1300 + 500) <= 10000
  EXPECT_EQ(passes_held(some, found, 692, 16), 1);
  EXPECT_EQ(passes_held(some, found, 693, 16), 0);
  EXPECT_EQ(largest_at_once(none, found, 2), 346);
  EXPECT_EQ(largest_at_once(some, found, 2), 307);  // 1000 + 2 (13 b + 500) <= 10000
  EXPECT_EQ(largest_at_once(some, found, 1), 692);
  EXPECT_EQ(largest_at_once(some, found, 32), 0);
}

// What was found smaller than the line says holds for several of them, too.
TEST(MemorySearchTest, PassesAtTheSameTimeKeepToWhatWasTried) {
  MadeUpDevice device;
  const auto found = device.find(256);
  EXPECT_EQ(largest_at_once(device.search(256), found, 4), 64);
  EXPECT_EQ(passes_held(device.search(256), found, 65, 4), 3);
}

}  // namespace
}  // namespace fovea::elastic
