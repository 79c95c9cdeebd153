#include "fovea/parallel/communicator.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <csignal>

#include "fovea/core/error.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/rank_error.h"
#include "tests/parallel/every_collective.h"
#include "tests/parallel/inner_world.h"
#include "tests/parallel/listening_sockets.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

using testing::check_collectives;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::listening_addresses;
using testing::run_ranks;
using testing::with_each_carrier;

TEST(CommunicatorTest, OneRankIsTrivial) {
  const auto one = make_one_rank();
  check_collectives(*one, at::kFloat);
  one->barrier("nothing");
  EXPECT_EQ(all_gather_text(*one, "alone", "a text"), std::vector<std::string>{"alone"});
  EXPECT_TRUE(one->counts().empty());
  EXPECT_THROW(one->all_reduce(at::zeros({2, 2}).t().narrow(0, 0, 1), "a column"), Error);
  EXPECT_THROW(one->all_gather(at::zeros({3}), at::zeros({2}), "parts"), Error);
  EXPECT_THROW(one->all_gather(at::zeros({2}), at::zeros({2}, at::kDouble), "parts"), Error);
}

TEST(CommunicatorTest, ThreeRanks) {
  run_ranks(3, [](World& outer) {
    with_each_carrier(outer, [](World& world) {
      auto& ranks = world.all();
      for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
        check_collectives(ranks, dtype);
      }
      ranks.barrier("a barrier");
      const auto texts = all_gather_text(ranks, std::string(ranks.rank(), 'x'), "texts");
      EXPECT_EQ(texts, (std::vector<std::string>{"", "x", "xx"}));
      EXPECT_EQ(max_over_ranks(ranks, static_cast<double>(-5 - ranks.rank()), "a number"), -5);
      // What ranks of one machine exchange is out of reach of the network: Gloo's sockets.
      EXPECT_THAT(listening_addresses(), ::testing::Each("127.0.0.1"));
      EXPECT_EQ(listening_addresses().empty(), world.launch().collectives == kSharedCollectives);
    });
  });
}

// Numbers of bfloat16, summed in float32 by every carrier alike, of two and of three ranks.
TEST(CommunicatorTest, SumsBfloat16InFloat) {
  run_ranks(3, [](World& outer) {
    with_each_carrier(outer, [](World& world) {
      const auto two = world.rank() < 2 ? world.make_group({0, 1}) : nullptr;
      for (auto* ranks : {&world.all(), two.get()}) {
        if (ranks == nullptr) continue;
        const auto n = ranks->size();
        const auto numbers_of = [&](int64_t rank) {
          return at::arange(5 * n, at::kDouble).add(0.3 * (rank + 1)).sin().to(at::kBFloat16);
        };
        const auto sum = at::zeros({5}), sent = numbers_of(ranks->rank());
        ranks->reduce_scatter(sum, sent, "gradients");
        auto expected = at::zeros({5});
        for (int64_t rank = 0; rank < n; ++rank) {
          expected += numbers_of(rank).narrow(0, 5 * ranks->rank(), 5).to(at::kFloat);
        }
        EXPECT_TRUE(sum.equal(expected)) << sum << expected;
      }
    });
  });
}

// In a world with a short patience; ends rank 1 in its own way. -> what rank 0 hears.
std::string heard_without_rank_1(World& outer, const std::function<void(World&)>& end) {
  World world(testing::launch_of(outer, {0, 1}, "short"), {.processes = 1, .timeout = 4});
  world.at_step(3);
  const auto parts = at::zeros({2 << 22}), own = at::ones({1 << 22});  // more than goes into a ring
  world.all().barrier("all are there: else the start is what fails");
  const auto pending = world.all().start_all_gather(parts, own, "weights of a block");
  if (world.rank() == 1) end(world);
  try {
    pending->wait();
    world.all().barrier("the next exchange");
  } catch (const RankError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kHang);
    return error.what();
  }
  return "nothing";
}

TEST(CommunicatorTest, ARankThatEndsWithinAnExchangeIsNamed) {
  run_ranks(2, [](World& outer) {
    const auto heard =
        heard_without_rank_1(outer, [](World&) { _exit(::testing::Test::HasFailure() ? 1 : 0); });
    EXPECT_THAT(heard, HasSubstr("rank 0, step 3, "));
    EXPECT_THAT(heard,
                ContainsRegex("rank 1 .* was not heard of for [0-9]+ s; it was killed or cut"));
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  });
}

TEST(CommunicatorTest, ARankThatIsStoppedIsNamed) {
  run_ranks(2, [](World& outer) {
    const auto pids = at::zeros({2}, at::kLong);
    outer.all().all_gather(pids, at::full({1}, getpid(), at::kLong), "processes");
    const auto heard = heard_without_rank_1(outer, [](World&) {
      kill(getpid(), SIGSTOP);
      _exit(0);  // once it goes on
    });
    EXPECT_THAT(heard, ContainsRegex("rank 1 .* was not heard of for [0-9]+ s; it was stopped"));
    kill(static_cast<pid_t>(pids[1].item<int64_t>()), SIGCONT);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  });
}

TEST(CommunicatorTest, CountsCallsAndBytes) {
  run_ranks(2, [](World& world) {
    auto& ranks = world.all();
    ranks.reset_counts();
    ranks.all_reduce(at::zeros({10}), "a");
    ranks.all_reduce(at::zeros({4}, at::kDouble), "b");
    ranks.all_gather(at::zeros({6}), at::zeros({3}), "c");
    ranks.reduce_scatter(at::zeros({3}), at::zeros({6}), "d");
    ranks.barrier("e");
    const CollectiveCounts expected = {{Collective::kAllReduce, {2, 40 + 32}},
                                       {Collective::kAllGather, {1, 24}},
                                       {Collective::kReduceScatter, {1, 24}},
                                       {Collective::kBarrier, {1, 0}}};
    EXPECT_EQ(ranks.counts(), expected);
  });
}

TEST(CommunicatorTest, GroupsAlongTheAxesOfAMesh) {
  run_ranks(4, [](World& world) {
    const DeviceMesh mesh(world, MeshShape{.sizes = {2, 1, 1, 2}});
    auto& tp = mesh.axis(MeshAxis::kTp);
    EXPECT_EQ(tp.size(), 2);
    EXPECT_EQ(tp.rank(), world.rank() % 2);
    auto number = at::full({1}, world.rank(), at::kLong);
    tp.all_reduce(number, "ranks of tp");
    EXPECT_EQ(number.item<int64_t>(), world.rank() < 2 ? 1 : 5);
    auto& data = mesh.data_parallel();
    EXPECT_EQ(data.rank(), world.rank() / 2);
    number.fill_(world.rank());
    data.all_reduce(number, "ranks of data");
    EXPECT_EQ(number.item<int64_t>(), world.rank() % 2 == 0 ? 2 : 4);
    EXPECT_EQ(mesh.axis(MeshAxis::kCp).size(), 1);
    EXPECT_EQ(&mesh.axis(MeshAxis::kDpReplicate), &data);
  });
}

TEST(CommunicatorTest, TheReasonOfAFailureReachesAll) {
  run_ranks(2, [](World& world) {
    world.at_step(7);
    world.all().barrier("all are there: else the start is what fails");
    if (world.rank() == 1) {
      EXPECT_TRUE(world.fail("the disk is full", ExitCode::kData));
      _exit(::testing::Test::HasFailure() ? 1 : 0);  // there is nobody to leave with
    }
    try {
      for (int i = 0; i < 100; ++i) world.all().all_reduce(at::zeros({2}), "losses");
      ADD_FAILURE() << "rank 0 heard of nothing";
    } catch (const RankError& error) {
      EXPECT_EQ(std::string(error.what()),
                "rank 0, step 7, all_reduce of losses: rank 1 failed at step 7: the disk is full");
      EXPECT_EQ(error.exit_code(), ExitCode::kData);
    }
    EXPECT_FALSE(world.fail("what comes of it", ExitCode::kUsage));
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  });
}

}  // namespace
}  // namespace fovea::parallel
