#include "fovea/data/latest_used.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace fovea::data {
namespace {

using ::testing::ElementsAre;

TEST(LatestUsedTest, KeepsTheLastOnesThatWereAskedFor) {
  LatestUsed<const int> kept(2);
  std::vector<int> made;
  const auto get = [&](int number) {
    return *kept.get(number, [&] {
      made.push_back(number);
      return std::make_shared<const int>(10 * number);
    });
  };
  for (const int number : {1, 2, 1, 3, 1, 2}) EXPECT_EQ(get(number), 10 * number);
  EXPECT_THAT(made, ElementsAre(1, 2, 3, 2));
}

TEST(LatestUsedTest, TriesAgainWhatCouldNotBeMade) {
  LatestUsed<const int> kept(1);
  const auto fail = []() -> std::shared_ptr<const int> { throw std::runtime_error("damaged"); };
  EXPECT_THROW(kept.get(0, fail), std::runtime_error);
  EXPECT_THROW(kept.get(0, fail), std::runtime_error);
  EXPECT_EQ(*kept.get(0, [] { return std::make_shared<const int>(5); }), 5);
}

TEST(LatestUsedTest, ThreadsMakeAThingOnce) {
  LatestUsed<const int> kept(4);
  std::atomic<int> num_made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int number = 0; number < 4; ++number) {
        kept.get(number, [&] {
          ++num_made;
          return std::make_shared<const int>(number);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_made, 4);
}

}  // namespace
}  // namespace fovea::data
