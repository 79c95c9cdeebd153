#include "fovea/parallel/communicator.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "fovea/core/error.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/rank_error.h"
#include "tests/parallel/every_collective.h"
#include "tests/parallel/listening_sockets.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

using testing::check_collectives;
using testing::listening_addresses;
using testing::run_ranks;

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
  run_ranks(3, [](World& world) {
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
    EXPECT_FALSE(listening_addresses().empty());
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
