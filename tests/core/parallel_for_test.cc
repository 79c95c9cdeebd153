#include "fovea/core/parallel_for.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

TEST(ParallelForTest, EachIndexOnce) {
  for (const int64_t threads : {0, 1, 3, 50}) {
    std::vector<std::atomic<int>> counts(20);
    parallel_for(20, threads, [&](int64_t i) { ++counts[static_cast<size_t>(i)]; });
    for (const auto& count : counts) EXPECT_EQ(count, 1);
  }
  parallel_for(0, 4, [](int64_t) { FAIL(); });
}

TEST(ParallelForTest, TheFirstFailureIsThrown) {
  for (int round = 0; round < 20; ++round) {
    const auto message = testing::message_of<DataError>([] {
      parallel_for(100, 4, [](int64_t i) {
        if (i % 7 == 3) fail<DataError>("{}", i);
      });
    });
    EXPECT_EQ(message, "3");
  }
}

}  // namespace
}  // namespace fovea::data
