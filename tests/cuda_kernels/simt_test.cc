// The emulation itself: what it computes, and what it refuses.
#include "tests/cuda_kernels/simt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::simt {
namespace {

constexpr unsigned kAll = 0xFFFFFFFF;

// What a launch of one block throws.
std::string fault_of(const dim3& block, const std::function<void()>& thread) {
  try {
    run({}, block, 1024, thread);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(SimtTest, EachThreadOfEachBlockRunsOnce) {
  std::vector<int> runs(3 * 2 * 5 * 4);
  run({3, 2}, {5, 2, 2}, 0, [&] {
    const auto block = blockIdx.y * gridDim.x + blockIdx.x;
    const auto thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    ++runs[block * 20 + thread];
  });
  EXPECT_THAT(runs, testing::Each(1));
}

TEST(SimtTest, BlocksSumUpThroughSharedMemory) {
  any_schedule([] {
    std::vector<int> sums(3);
    run({3}, {100}, 100 * sizeof(int), [&] {
      auto* values = static_cast<int*>(shared_memory());
      values[threadIdx.x] = static_cast<int>(threadIdx.x * blockIdx.x);
      __syncthreads();
      if (threadIdx.x == 99) sums[blockIdx.x] = std::accumulate(values, values + 100, 0);
      __syncthreads();
    });
    EXPECT_EQ(sums, (std::vector<int>{0, 4950, 9900}));
  });
}

TEST(SimtTest, SharedMemoryStartsAsNans) {
  run({2}, {1}, 2 * sizeof(float), [] {
    auto* values = static_cast<float*>(shared_memory());
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
    values[0] = values[1] = 1;  // is not there for the next block
  });
}

TEST(SimtTest, ShufflesExchangeWithinAWarp) {
  any_schedule([] {
    std::vector<int> across(64);
    std::vector<double> down(64);
    run({}, {64}, 0, [&] {
      across[threadIdx.x] = __shfl_xor_sync(kAll, static_cast<int>(threadIdx.x), 5);
      down[threadIdx.x] = __shfl_down_sync(kAll, 0.5 * threadIdx.x, 4);
    });
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(across[i], i ^ 5);
      EXPECT_EQ(down[i], i % 32 < 28 ? 0.5 * (i + 4) : 0.5 * i);
    }
  });
}

TEST(SimtTest, PartsOfAWarpShuffleApart) {
  std::vector<int> values(32);
  run({}, {32}, 0, [&] {
    const bool is_low = threadIdx.x < 16;
    const int own = static_cast<int>(threadIdx.x);
    values[threadIdx.x] =
        is_low ? __shfl_xor_sync(0x0000FFFF, own, 1) : __shfl_xor_sync(0xFFFF0000, own, 2);
  });
  for (int i = 0; i < 32; ++i) EXPECT_EQ(values[i], i < 16 ? i ^ 1 : i ^ 2);
}

TEST(SimtTest, SchedulesShowAMissingBarrier) {
  std::set<float> results;
  any_schedule([&] {
    run({}, {2}, 2 * sizeof(float), [&] {
      auto* values = static_cast<float*>(shared_memory());
      values[threadIdx.x] = 1;
      if (threadIdx.x == 0) results.insert(std::isnan(values[1]) ? 0.0f : values[1]);
    });
  });
  EXPECT_EQ(results.size(), 2u);
}

// A second value goes where the first one has not been read by all.
TEST(SimtTest, SchedulesShowAMissingBarrierBeforeTheNextUse) {
  std::set<int> results;
  any_schedule([&] {
    run({}, {64}, sizeof(int), [&] {
      auto* value = static_cast<int*>(shared_memory());
      if (threadIdx.x == 0) *value = 1;
      __syncthreads();
      const int first = *value;
      if (threadIdx.x == 32) results.insert(first);
      if (threadIdx.x == 0) *value = 2;
      __syncthreads();
    });
  });
  EXPECT_EQ(results, (std::set<int>{1, 2}));
}

TEST(SimtTest, ABarrierThatAThreadDoesNotReachIsReported) {
  EXPECT_THAT(fault_of({64},
                       [] {
                         if (threadIdx.x == 40) return;
                         __syncthreads();
                       }),
              testing::ContainsRegex("thread \\(0, 0, 0\\) waits at __syncthreads, "
                                     "simt_test.cc:[0-9]+, thread \\(40, 0, 0\\) has returned"));
}

TEST(SimtTest, BarriersAtTwoPlacesAreReported) {
  const auto diverges = [] {  // not in the macro below, which is one place
    if (threadIdx.x < 32) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  };
  EXPECT_THAT(fault_of({64}, diverges),
              testing::HasSubstr("thread (32, 0, 0) waits at __syncthreads"));
}

TEST(SimtTest, AShuffleInDivergentCodeIsReported) {
  EXPECT_THAT(fault_of({32},
                       [] {
                         if (threadIdx.x < 16) __shfl_xor_sync(kAll, 1.0f, 1);
                       }),
              testing::ContainsRegex("waits in a shuffle with mask ffffffff, simt_test.cc:[0-9]+, "
                                     "thread \\(16, 0, 0\\) has returned"));
  EXPECT_THAT(fault_of({32},
                       [] {
                         if (threadIdx.x < 16) {
                           __shfl_xor_sync(kAll, 1.0f, 1);
                         } else {
                           __syncthreads();
                         }
                       }),
              testing::HasSubstr("thread (16, 0, 0) waits at __syncthreads"));
}

TEST(SimtTest, AShuffleWithLanesThatAreNotThereIsReported) {
  EXPECT_THAT(fault_of({20}, [] { __shfl_xor_sync(kAll, 1, 1); }),
              testing::HasSubstr("lanes that its mask names are not there"));
}

TEST(SimtTest, AShuffleThatReadsAnotherLaneIsReported) {
  EXPECT_THAT(fault_of({32},
                       [] {
                         if (threadIdx.x < 16) __shfl_xor_sync(0x0000FFFF, 1, 16);
                       }),
              testing::HasSubstr("reads lane 16"));
  EXPECT_THAT(fault_of({32}, [] { __shfl_xor_sync(0x0000FFFF, 1, 1); }),
              testing::HasSubstr("does not name it"));
}

TEST(SimtTest, LaunchesBeyondTheLimitsAreRefused) {
  const auto nothing = [] {};
  EXPECT_THROW(run({0}, {32}, 0, nothing), Error);
  EXPECT_THROW(run({1, 65536}, {32}, 0, nothing), Error);
  EXPECT_THROW(run({1}, {1025}, 0, nothing), Error);
  EXPECT_THROW(run({1}, {32}, (48 << 10) + 1, nothing), Error);
}

TEST(SimtTest, WhatAThreadThrowsComesOut) {
  EXPECT_EQ(fault_of({64},
                     [] {
                       if (threadIdx.x == 33) throw Error("from thread 33");
                       __syncthreads();
                     }),
            "from thread 33");
  EXPECT_EQ(fault_of({64}, [] { __syncthreads(); }), "nothing");  // the next launch is a fresh one
}

#if defined(__SANITIZE_ADDRESS__)
TEST(SimtDeathTest, WritingBehindSharedMemoryIsFound) {
  const auto write_behind = [] {
    run({}, {4}, 4 * sizeof(float),
        [] { static_cast<volatile float*>(shared_memory())[threadIdx.x + 1] = 1; });
  };
  EXPECT_DEATH(write_behind(), "heap-buffer-overflow");
}
#endif

}  // namespace
}  // namespace fovea::simt
