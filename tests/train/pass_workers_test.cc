#include "fovea/train/step/pass_workers.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace fovea::train {
namespace {

std::vector<int64_t> upto(int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

TEST(PassWorkersTest, AddsInTheOrderOfThePassesAndHoldsOneEach) {
  PassWorkers workers(3, c10::kCPU);
  for (const int64_t at_once : {1, 2, 3}) {
    std::atomic<int64_t> held = 0, most = 0;
    std::vector<int64_t> added;
    workers.run(
        at_once, 40,
        [&](int64_t) {
          const int64_t now = ++held;
          int64_t before = most;
          while (before < now && !most.compare_exchange_weak(before, now)) {
          }
        },
        [&](int64_t i) {
          --held;
          added.push_back(i);  // one at a time: the sanitizers look
        });
    EXPECT_EQ(added, upto(40));
    EXPECT_LE(most, at_once);
  }
}

// All are at work at the same time: none waits for another one's pass to be added.
TEST(PassWorkersTest, PassesMeet) {
  PassWorkers workers(3, c10::kCPU);
  std::atomic<int64_t> here = 0;
  workers.run(
      3, 3,
      [&](int64_t) {
        ++here;
        while (here < 3) std::this_thread::yield();
      },
      [](int64_t) {});
  EXPECT_EQ(here, 3);
}

TEST(PassWorkersTest, TheFirstFailureIsThrownOnceAllHaveLeft) {
  PassWorkers workers(2, c10::kCPU);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int64_t> inside = 0;
    std::vector<int64_t> added;
    std::string what;
    try {
      workers.run(
          2, 10,
          [&](int64_t i) {
            ++inside;
            if (i == 3 || i == 4) {
              --inside;
              throw std::runtime_error("pass " + std::to_string(i));
            }
            --inside;
          },
          [&](int64_t i) { added.push_back(i); });
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    EXPECT_EQ(what, "pass 3");
    EXPECT_EQ(inside, 0);
    EXPECT_EQ(added, upto(3));
  }
  EXPECT_THROW(workers.run(
                   2, 4, [](int64_t) {},
                   [](int64_t i) {
                     if (i == 1) throw std::bad_alloc();
                   }),
               std::bad_alloc);
  std::vector<int64_t> added;  // and the next one is as any
  workers.run(
      2, 5, [](int64_t) {}, [&](int64_t i) { added.push_back(i); });
  EXPECT_EQ(added, upto(5));
}

TEST(PassWorkersTest, HasTheCallersModesAndAShareOfItsThreads) {
  const int before = at::get_num_threads();
  at::set_num_threads(5);
  PassWorkers workers(2, c10::kCPU);
  std::multiset<int> threads;
  std::atomic<bool> has_gradients = false, is_other = false;
  const at::NoGradGuard no_grad;
  const nn::StepScope step(7, 11, {});
  std::atomic<int> here = 0;
  workers.run(
      2, 2,
      [&](int64_t) {
        ++here;
        while (here < 2) std::this_thread::yield();
        at::parallel_for(0, 1, 1, [](int64_t, int64_t) {});  // sets a number where none was set
        if (at::GradMode::is_enabled()) has_gradients = true;
        if (nn::forward_context().step->step != 11) is_other = true;
      },
      [&](int64_t) { threads.insert(at::get_num_threads()); });
  EXPECT_EQ(threads, (std::multiset<int>{2, 2}));
  EXPECT_FALSE(has_gradients);
  EXPECT_FALSE(is_other);
  EXPECT_EQ(at::get_num_threads(), 5);
  std::thread([] { EXPECT_EQ(at::get_num_threads(), 5); }).join();  // of threads to come
  at::set_num_threads(before);
}

}  // namespace
}  // namespace fovea::train
