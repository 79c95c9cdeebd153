#include "fovea/core/futex.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace fovea {
namespace {

using std::chrono::milliseconds, std::chrono::nanoseconds, std::chrono::steady_clock;

// Returns by itself, or the test does not end.
TEST(FutexTest, DoesNotSleepOnAnotherValue) {
  const std::atomic<uint32_t> word = 3;
  sleep_while(word, 4);
  EXPECT_EQ(word, 3);
}

TEST(FutexTest, SleepsForItsPatience) {
  const std::atomic<uint32_t> word = 3;
  int calls = 0;
  for (const auto begin = steady_clock::now(); steady_clock::now() < begin + milliseconds(20);) {
    sleep_while(word, 3, milliseconds(20));
    calls += 1;
  }
  EXPECT_LT(calls, 10);  // some may be for no reason
}

TEST(FutexTest, WakesAllThatSleep) {
  for (const std::optional<nanoseconds> patience :
       {std::optional<nanoseconds>(), std::optional<nanoseconds>(milliseconds(60'500))}) {
    std::atomic<uint32_t> word = 0;
    std::atomic<int> calls = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (; word == 0; calls += 1) sleep_while(word, 0, patience);
      });
    }
    std::this_thread::sleep_for(milliseconds(20));
    word = 1;
    wake_all(word);
    for (auto& thread : threads) thread.join();
    EXPECT_LT(calls, 30);
  }
}

}  // namespace
}  // namespace fovea
