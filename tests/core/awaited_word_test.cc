#include "fovea/core/awaited_word.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

namespace fovea {
namespace {

using std::chrono::milliseconds, std::chrono::nanoseconds, std::chrono::steady_clock;

// Returns by itself, or the test does not end.
TEST(AwaitedWordTest, DoesNotSleepOnAnotherValue) {
  AwaitedWord word;
  word.value = 3;
  word.sleep_while(4);
  EXPECT_EQ(word.value, 3);
}

TEST(AwaitedWordTest, SleepsForItsPatience) {
  AwaitedWord word;
  word.value = 3;
  int calls = 0;
  for (const auto begin = steady_clock::now(); steady_clock::now() < begin + milliseconds(20);) {
    word.sleep_while(3, milliseconds(20));
    calls += 1;
  }
  EXPECT_LT(calls, 10);  // some may be for no reason
}

TEST(AwaitedWordTest, WakesAllThatSleep) {
  for (const std::optional<nanoseconds> patience :
       {std::optional<nanoseconds>(), std::optional<nanoseconds>(milliseconds(60'500))}) {
    AwaitedWord word;
    std::atomic<int> calls = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (; word.value == 0; calls += 1) word.sleep_while(0, patience);
      });
    }
    std::this_thread::sleep_for(milliseconds(20));
    word.value = 1;
    word.wake_all();
    for (auto& thread : threads) thread.join();
    EXPECT_LT(calls, 30);
  }
}

}  // namespace
}  // namespace fovea
