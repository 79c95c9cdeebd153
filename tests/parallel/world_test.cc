// Groups that come and go in one process, as where ranks of a run are lost or added.
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "fovea/parallel/mesh.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/parallel/nccl.h"
#include "fovea/parallel/process_group.h"
#include "fovea/parallel/rank_error.h"
#include "tests/parallel/inner_world.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

using ::testing::HasSubstr;
using testing::launch_of;
using testing::run_ranks;
using testing::with_ranks;

int64_t entries_of(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

// Each adds its bit of the outer ranks.
void expect_all_are_there(const World& outer, World& world, const std::vector<int64_t>& ranks) {
  const auto sum = at::full({3}, static_cast<double>(1 << outer.rank()), at::kDouble);
  world.all().all_reduce(sum, "a sum");
  double expected = 0;
  for (const int64_t rank : ranks) expected += 1 << rank;
  EXPECT_TRUE(sum.eq(expected).all().item<bool>()) << sum;
  const auto gathered = at::full({world.size()}, 0.0, at::kDouble);
  world.all().all_gather(gathered, at::full({1}, static_cast<double>(outer.rank()), at::kDouble),
                         "the ranks");
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(gathered[static_cast<int64_t>(i)].item<double>(), static_cast<double>(ranks[i]));
  }
}

TEST(WorldTest, AProcessLeavesOneGroupAndJoinsAnother) {
  run_ranks(3, [](World& outer) {
    const auto threads = entries_of("/proc/self/task"), files = entries_of("/proc/self/fd");
    const std::vector<std::vector<int64_t>> starts = {{0, 1, 2}, {1, 2}, {2, 0}, {2, 1, 0}, {0, 1}};
    for (size_t i = 0; i < starts.size(); ++i) {
      with_ranks(outer, starts[i], std::to_string(i), [&](World& world) {
        expect_all_are_there(outer, world, starts[i]);
        const DeviceMesh mesh(world, mesh_shape({.dp_shard = world.size()}, world.size(), 6));
        EXPECT_EQ(mesh.data_parallel().size(), world.size());
        world.leave();
      });
      outer.all().barrier("the next start");
      EXPECT_EQ(entries_of("/proc/self/task"), threads) << "after start " << i;
      EXPECT_EQ(entries_of("/proc/self/fd"), files) << "after start " << i;
    }
  });
}

using SignalHandler = void (*)(int);

SignalHandler handler_of_broken_pipes() {
  struct sigaction action {};
  EXPECT_EQ(sigaction(SIGPIPE, nullptr, &action), 0);
  return action.sa_handler;
}

// A rank that writes to one that has gone hears of it, and does not die of it; who has a handler
// keeps it.
TEST(WorldTest, JoiningOthersIgnoresBrokenPipes) {
  run_ranks(2, [](World& outer) {
    const auto join_with = [&](SignalHandler before, const std::string& start) {
      std::signal(SIGPIPE, before);
      SignalHandler joined = nullptr;
      with_ranks(outer, {0, 1}, start, [&](World& world) {
        joined = handler_of_broken_pipes();
        world.leave();
      });
      return joined;
    };
    const SignalHandler own = [](int) {};
    EXPECT_EQ(join_with(own, "own"), own);
    EXPECT_EQ(join_with(SIG_DFL, "default"), SIG_IGN);
    EXPECT_EQ(handler_of_broken_pipes(), SIG_IGN);
  });
}

// A failure ends the start that it is of, and no other one.
TEST(WorldTest, AFailureStaysInItsStart) {
  run_ranks(3, [](World& outer) {
    with_ranks(outer, {0, 1, 2}, "first", [&](World& world) {
      const auto add = [&] { world.all().all_reduce(at::full({1}, 1.0), "a sum"); };
      if (outer.rank() == 1) {
        add();  // the others have started their group
        world.fail("lost a disk", ExitCode::kData);
        return;
      }
      try {
        for (int i = 0; i < 100; ++i) add();
        ADD_FAILURE() << "added up without rank 1";
      } catch (const RankError& error) {
        EXPECT_THAT(error.what(), HasSubstr("lost a disk"));
      }
    });
    with_ranks(outer, {0, 2}, "second", [&](World& world) {
      expect_all_are_there(outer, world, {0, 2});
      world.leave();
    });
    with_ranks(outer, {1, 2, 0}, "third", [&](World& world) {
      expect_all_are_there(outer, world, {1, 2, 0});
      world.leave();
    });
    expect_all_are_there(outer, outer, {0, 1, 2});
  });
}

// Each rank with the one GPU that it is shown, as schedulers do: groups between them where they are
// different ones, none where two ranks were shown the same.
TEST(DeviceGroupsTest, GoByWhichDevicesTheRanksHave) {
  run_ranks(2, [](World& world) {
    for (const bool is_shared : {true, false}) {
      int num_made = 0;
      const auto backend = std::make_shared<const DeviceBackend>(
          DeviceBackend{.device = is_shared ? "same" : std::to_string(world.rank()),
                        .make = [&](const KeyStore& store, const GroupOptions& options) {
                          ++num_made;
                          return make_gloo(store.under("device"), options).backend;
                        }});
      const auto launch = launch_of(world, {0, 1}, is_shared ? "shared" : "apart");
      World other(launch, LaunchConfig(), backend);
      EXPECT_EQ(num_made, is_shared ? 0 : 1);
      other.leave();
    }
  });
}

TEST(DeviceGroupsTest, WantADeviceForEachRank) {
  EXPECT_EQ(why_no_device_groups({"a", "b", "c"}), "");
  EXPECT_EQ(why_no_device_groups({"a", "b", "a"}), "ranks 0 and 2 share one GPU (a)");
  EXPECT_EQ(why_no_device_groups({"a", ""}), "rank 1 has no GPU with NCCL");
}

}  // namespace
}  // namespace fovea::parallel
