#include "fovea/kernels/cpu/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fovea/kernels/cpu/share_out.h"

namespace fovea::kernels::cpu {
namespace {

// How often each of `count` items is worked on when a team of `helpers` shares them out.
std::vector<int> worked_on(int64_t helpers, int64_t count, int64_t most) {
  std::vector<std::atomic<int>> times(static_cast<size_t>(count));
  Pieces pieces(count, 1, most);
  run_in_team(helpers, [&](int64_t thread) {
    pieces.take(thread, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) times[static_cast<size_t>(i)] += 1;
    });
  });
  return {times.begin(), times.end()};
}

TEST(TeamTest, DoesEachPieceOnce) {
  for (int round = 0; round < 2000; ++round) {
    const int64_t count = 1 + round % 37;
    EXPECT_EQ(worked_on(1 + round % 5, count, 1 + round % 3), std::vector<int>(count, 1));
  }
}

// Items by who took them, where of a thread and its only helper one takes the first piece and stays
// at it until the other one finds nothing left.
struct Taken {
  std::vector<int64_t> by_thread, by_helper;
};
Taken taken_while(bool helper_is_slow, int64_t count, int64_t least, int64_t most) {
  Taken taken;
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  Pieces pieces(count, least, most);
  at::set_num_threads(before);
  std::atomic<bool> has_begun = false, is_done = false;
  const auto wait_for = [](const std::atomic<bool>& event) {
    while (!event) std::this_thread::yield();
  };
  const auto work = [&](int64_t number) {
    auto& mine = number == 0 ? taken.by_thread : taken.by_helper;
    const bool is_slow = (number == 1) == helper_is_slow;
    if (!is_slow) wait_for(has_begun);
    pieces.take(number, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) mine.push_back(i);
      has_begun = true;
      if (is_slow) wait_for(is_done);
    });
    is_done = true;
  };
  std::thread([&] { run_in_team(1, work); }).join();  // a team of its own
  return taken;
}

TEST(TeamTest, EachThreadHasItsSectionAndThenTheOthers) {
  for (const bool helper_is_slow : {false, true}) {
    const auto [by_thread, by_helper] = taken_while(helper_is_slow, 40, /*least=*/4, /*most=*/8);
    const auto& slow = helper_is_slow ? by_helper : by_thread;
    const auto& fast = helper_is_slow ? by_thread : by_helper;
    const int64_t own = helper_is_slow ? 0 : 20, of_other = 20 - own;
    ASSERT_EQ(slow.size(), 8) << "its first piece, for which the rest takes place";
    EXPECT_EQ(slow.front(), of_other);
    ASSERT_EQ(fast.size(), 32);
    EXPECT_EQ(fast.front(), own);
    EXPECT_EQ(fast[19], own + 19) << "its own section comes first, in order";
    EXPECT_EQ(fast[20], of_other + 8) << "then what the other one has left";
  }
}

TEST(TeamTest, OneThreadTakesAllSectionsInOrder) {
  for (const int64_t count : {1, 3, 4, 5, 31, 40, 41}) {
    Pieces pieces(count, /*least=*/4, /*most=*/8);
    int64_t next = 0;
    pieces.take(0, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin, next);
      EXPECT_LE(end - begin, 8);
      EXPECT_TRUE((end - begin) % 4 == 0 || end == count);
      next = end;
    });
    EXPECT_EQ(next, count);
  }
}

// The helper is there once the thread leaves it time to come.
TEST(TeamTest, HelpersWork) {
  std::atomic<int> inside = 0;
  run_in_team(3, [&](int64_t) {
    inside += 1;
    while (inside < 4) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 4);
}

TEST(TeamTest, DoesNotWaitForWhoHasNotBegun) {
  std::atomic<int> calls = 0;
  for (int i = 0; i < 1000; ++i) run_in_team(8, [&](int64_t) { calls += 1; });
  EXPECT_GE(calls, 1000);
  EXPECT_LE(calls, 9000);
}

TEST(TeamTest, ThrowsWhatItsThreadsThrow) {
  for (const int64_t helpers : {0, 3}) {
    EXPECT_THROW(run_in_team(helpers, [](int64_t) { throw std::runtime_error("a fault"); }),
                 std::runtime_error);
    EXPECT_EQ(worked_on(helpers, 10, 1), std::vector<int>(10, 1));
  }
  std::atomic<int> inside = 0;
  EXPECT_THROW(run_in_team(1,
                           [&](int64_t) {  // in the helper alone
                             const bool is_second = inside++ == 1;
                             while (inside < 2) std::this_thread::yield();
                             if (is_second) throw std::runtime_error("a fault");
                           }),
               std::runtime_error);
}

TEST(TeamTest, IsAloneWithin) {
  std::atomic<int> calls = 0;
  std::atomic<bool> is_other = false;
  run_in_team(3, [&](int64_t) {
    const auto self = std::this_thread::get_id();
    run_in_team(3, [&](int64_t) {
      calls += 1;
      if (std::this_thread::get_id() != self) is_other = true;
    });
  });
  EXPECT_GE(calls, 1);
  EXPECT_FALSE(is_other);
}

TEST(TeamTest, ThreadsHaveTeamsOfTheirOwn) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        if (worked_on(2, 20, 1) != std::vector<int>(20, 1)) wrong += 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(TeamTest, AForkedProcessHasNewHelpers) {
  EXPECT_EQ(worked_on(2, 20, 1), std::vector<int>(20, 1));
  const auto child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> inside = 0;
    run_in_team(1, [&](int64_t) {
      inside += 1;
      while (inside < 2) std::this_thread::yield();
    });
    _exit(7);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

cpu_set_t cpus_of(pid_t thread) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  EXPECT_EQ(sched_getaffinity(thread, sizeof cpus, &cpus), 0);
  return cpus;
}

void set_cpus(pid_t thread, const cpu_set_t& cpus) {
  EXPECT_EQ(sched_setaffinity(thread, sizeof cpus, &cpus), 0);
}

cpu_set_t only(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  return cpus;
}

// A team of one helper, where other tests may have left more.
void in_new_thread(const std::function<void()>& body) { std::thread(body).join(); }

// Calls body() in a helper, while this thread waits for it. -> the helper
pid_t in_helper(const std::function<void()>& body) {
  const auto self = gettid();
  std::atomic<pid_t> helper = 0;
  run_in_team(1, [&](int64_t) {
    if (gettid() == self) {
      while (helper == 0) std::this_thread::yield();
    } else {
      helper = gettid();
      body();
    }
  });
  return helper;
}

TEST(TeamTest, AHelperGoesOffTheProcessorOfItsThread) {
  const auto own = cpus_of(0);
  if (CPU_COUNT(&own) < 2) GTEST_SKIP() << "one processor";
  in_new_thread([&own] {
    const auto helper = in_helper([] {});
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &own)) continue;
      set_cpus(0, only(cpu));
      set_cpus(helper, only(cpu));
      set_cpus(0, own);
      ASSERT_EQ(in_helper([] {}), helper);
      if (sched_getcpu() != cpu) continue;  // the system may have moved the thread
      const auto cpus = cpus_of(helper);
      EXPECT_FALSE(CPU_ISSET(cpu, &cpus)) << cpu;
      EXPECT_EQ(CPU_COUNT(&cpus), CPU_COUNT(&own) - 1) << cpu;
    }
  });
}

// One that sleeps gets on as little as one whose processor another program has.
TEST(TeamTest, AHelperThatDoesNotGetOnIsFetchedAndLetGo) {
  const auto own = cpus_of(0);
  if (CPU_COUNT(&own) < 2) GTEST_SKIP() << "one processor";
  in_new_thread([&own] {
    bool is_fetched = false;
    const auto helper = in_helper([&] {
      set_cpus(0, own);
      for (int tries = 0; tries < 5000 && !is_fetched; ++tries) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto cpus = cpus_of(0);
        is_fetched = CPU_COUNT(&cpus) == 1;
      }
    });
    EXPECT_TRUE(is_fetched);
    const auto cpus = cpus_of(helper);
    EXPECT_EQ(CPU_COUNT(&cpus), CPU_COUNT(&own) - 1);
  });
}

TEST(TeamTest, RangesAreAsLargeAsAsked) {
  for (const int64_t count : {0, 1, 99, 100, 101, 1000}) {
    std::vector<std::atomic<int>> times(static_cast<size_t>(count));
    std::atomic<int64_t> small = 0;
    for_ranges(count, 100, [&](int64_t begin, int64_t end) {
      if (end - begin < 100) small += 1;
      for (int64_t i = begin; i < end; ++i) times[static_cast<size_t>(i)] += 1;
    });
    if (has_teams()) {
      EXPECT_LE(small, 1);  // the rest; libtorch cuts evenly
    }
    EXPECT_EQ((std::vector<int>{times.begin(), times.end()}), std::vector<int>(count, 1));
  }
}

}  // namespace
}  // namespace fovea::kernels::cpu
