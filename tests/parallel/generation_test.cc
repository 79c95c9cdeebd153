// Generations of a run's members: left while they are broken, and made anew, in one process.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fovea/parallel/rank_error.h"
#include "tests/parallel/member.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;
using testing::Member;
using testing::run_ranks;

// Far less than any patience of a World, far more than it takes.
constexpr milliseconds kAtOnce{5000};

struct LeftBehind {
  int64_t files = 0, threads = 0, mappings = 0;
  bool operator==(const LeftBehind&) const = default;
};

int64_t entries_in(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// What this process holds of the system.
LeftBehind held_by_process() {
  LeftBehind held{.files = entries_in("/proc/self/fd"), .threads = entries_in("/proc/self/task")};
  std::ifstream lines("/proc/self/maps");
  for (std::string line; std::getline(lines, line);) {
    held.mappings += line.find("memfd:fovea") != line.npos ? 1 : 0;
  }
  return held;
}

at::Tensor large(double value) { return at::full({3 << 20}, value, at::kDouble); }

// Of a wait in another thread, as backward's: what it ends with.
std::string end_of_sum(World& world) {
  try {
    const auto x = large(1);
    world.all().all_reduce(x, "gradients");
  } catch (const RankError& error) {
    return error.what();
  }
  return "a sum";
}

// One rank never comes to an exchange that the others are in, two of them in a thread of their own:
// those leave, all of them at once.
TEST(GenerationTest, ABrokenOneIsLeftAtOnceBesideAStoppedRank) {
  run_ranks(4, [](World& outer) {
    const Member member(outer, 2);
    int64_t number = 0;
    for (const std::string carrier : {kSharedCollectives, kGlooCollectives}) {
      auto world = member.join({0, 1, 2, 3}, ++number, {.carrier = carrier});
      if (world->rank() < 2) world->make_group({0, 1});
      world->all().barrier("all are there");
      outer.all().barrier("all are there");
      if (outer.rank() == 3) {
        outer.all().barrier("the others have left");  // and does nothing of what they wait for
        EXPECT_THAT(end_of_sum(*world), Not(HasSubstr("a sum")));
        world->abandon("a test");
        continue;
      }
      auto sum = std::async(std::launch::async, [&] { return end_of_sum(*world); });
      const milliseconds under_way{outer.rank() == 0 ? 500 : 50};
      EXPECT_EQ(sum.wait_for(under_way), std::future_status::timeout);
      const auto start = Clock::now();
      if (outer.rank() == 0) world->abandon("plan 2 came");  // the others hear it of the connection
      const auto heard = sum.get();
      EXPECT_THAT(heard, HasSubstr(outer.rank() == 0 ? "plan 2 came" : "gradients"));
      world->abandon("plan 2 came");
      EXPECT_THROW(world->all().barrier("of what was left"), RankError);
      EXPECT_THROW(world->make_group({0, 1, 2}), RankError);
      world.reset();
      EXPECT_LT(Clock::now() - start, kAtOnce) << carrier << " of rank " << outer.rank();
      outer.all().barrier("the others have left");
    }
  });
}

// Also where it is the one with the store, and is stopped as a whole.
TEST(GenerationTest, AStoppedFirstRankIsFoundAndLeft) {
  run_ranks(3, [](World& outer) {
    const Member member(outer, 2);
    auto world = member.join({1, 0, 2}, 1, {.silence = 2});
    const auto pids = all_gather_text(outer.all(), std::to_string(getpid()), "processes");
    const auto stopped = static_cast<pid_t>(std::stol(pids[1]));
    world->all().barrier("all are there");
    outer.all().barrier("all are there");
    if (outer.rank() == 1) {
      std::raise(SIGSTOP);
      EXPECT_THAT(end_of_sum(*world), Not(HasSubstr("a sum")));
    } else {
      const auto start = Clock::now();
      const auto heard = end_of_sum(*world);
      EXPECT_LT(Clock::now() - start, milliseconds(15000))
          << heard;  // it is its silence that ends it
      world->abandon("it was stopped");
      world.reset();
      const auto next = member.join({2, 0}, 2, {.silence = 2});
      EXPECT_EQ(next->size(), 2);
      next->all().barrier("without it");
      next->leave();
      if (outer.rank() == 0) kill(stopped, SIGCONT);
    }
    world.reset();
  });
}

// A start that waits for a rank that will not come ends when a new plan does.
TEST(GenerationTest, ThePlanAfterItEndsAStart) {
  run_ranks(3, [](World& outer) {
    const Member member(outer, 2);
    int64_t number = 0;
    for (const std::string carrier : {kSharedCollectives, kGlooCollectives}) {
      if (outer.rank() < 2) {
        auto interrupt = std::make_shared<Interrupt>();
        auto start = std::async(std::launch::async, [&] {
          try {
            member.join({0, 1, 2}, ++number, {.carrier = carrier, .interrupt = interrupt});
          } catch (const Error& error) {
            return std::string(error.what());
          }
          return std::string("a world of three");
        });
        EXPECT_EQ(start.wait_for(milliseconds(200)), std::future_status::timeout);
        interrupt->fire("plan 2 came");
        EXPECT_EQ(start.wait_for(kAtOnce), std::future_status::ready);
        EXPECT_THAT(start.get(), HasSubstr("plan 2 came"));
      }
      outer.all().barrier("the next carrier");
    }
  });
}

// One that is killed while it gets a part of a large message: who sends it leaves at once.
TEST(GenerationTest, ABrokenOneIsLeftAtOnceInTheMidstOfAMessage) {
  constexpr int64_t kNumVictims = 2;
  run_ranks(1 + kNumVictims, [](World& outer) {
    const Member member(outer, kNumVictims);
    outer.all().barrier("from here on everybody may be killed");
    for (int64_t victim = 1; victim <= kNumVictims; ++victim) {
      if (outer.rank() != 0 && outer.rank() != victim) continue;
      auto world = member.join({0, victim}, victim, {.carrier = kGlooCollectives});
      const auto own = at::ones({4 << 20}, at::kDouble), of_both = own.new_empty({8 << 20});
      world->all().barrier("both are there");
      auto under_way = world->all().start_all_gather(of_both, own, "weights");
      if (outer.rank() == victim) {
        std::this_thread::sleep_for(milliseconds(2 * victim - 1));
        _exit(0);
      }
      const auto start = Clock::now();
      EXPECT_THROW(under_way->wait(), RankError);
      world->abandon("one was killed");
      world.reset();
      EXPECT_LT(Clock::now() - start, kAtOnce) << "beside rank " << victim;
    }
    _exit(::testing::Test::HasFailure() ? 1 : 0);  // who would meet at the end is gone
  });
}

// Leaves while a sum is under way, in which all are but the first rank; the second one gives its
// part up before it leaves.
void break_off(World& world, const std::vector<int64_t>& ranks, int64_t own) {
  std::unique_ptr<Pending> under_way;
  try {
    if (own != ranks[0]) under_way = world.all().start_all_reduce(large(2), "gradients");
    if (own == ranks[1]) under_way.reset();
  } catch (const RankError&) {  // another one has left
  }
  world.abandon("the next one");
}

// Twenty generations, most of them left while something is under way, each with another first rank:
// the last one leaves what the first one left.
TEST(GenerationTest, NothingRemainsOfThoseThatWereLeft) {
  run_ranks(3, [](World& outer) {
    const Member member(outer, 20);
    std::optional<LeftBehind> before;
    for (int64_t number = 1; number <= 20; ++number) {
      const int64_t first = number % 3, second = (number + 1) % 3, third = (number + 2) % 3;
      const bool has_two = number % 4 == 0;
      const std::vector<int64_t> ranks =
          has_two ? std::vector{first, second} : std::vector{first, second, third};
      const bool is_member = !has_two || outer.rank() != third;
      std::unique_ptr<World> world;
      if (is_member) {
        world = member.join(ranks, number,
                            {.carrier = number % 2 == 0 ? kGlooCollectives : kSharedCollectives});
        const auto sum = large(1);
        world->all().all_reduce(sum, "weights");
        EXPECT_EQ(sum[0].item<double>(), static_cast<double>(ranks.size()));
      }
      outer.all().barrier("before something is under way");
      if (is_member && number % 5 == 0) {
        world->leave();
      } else if (is_member) {
        break_off(*world, ranks, outer.rank());
      }
      world.reset();
      outer.all().barrier("the next one");
      if (number == 2) before = held_by_process();  // of both carriers
      if (!before) continue;
      const auto held = held_by_process();
      EXPECT_EQ(held, *before) << "after " << number << ": " << held.files << " files, "
                               << held.threads << " threads, " << held.mappings << " mappings";
    }
  });
}

}  // namespace
}  // namespace fovea::parallel
