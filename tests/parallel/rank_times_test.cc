#include "fovea/train/run/rank_times.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/parallel/run_ranks.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

TEST(RankTimesTest, TheRankThatStandsInCollectivesLeastIsTheSlowest) {
  const std::vector<RankTimes> times = {
      {.seconds = 10, .data = 0, .comm = 4},
      {.seconds = 10, .data = 3, .comm = 1},
      {.seconds = 10, .data = 0, .comm = 4},
  };
  const auto straggler = find_straggler(times);
  EXPECT_EQ(straggler.rank, 1);
  EXPECT_DOUBLE_EQ(straggler.comm_share, 0.3);
  EXPECT_DOUBLE_EQ(straggler.waited_share, 0.3);  // the exchange itself takes the other tenth
  EXPECT_DOUBLE_EQ(straggler.data_share, 0.3);
  EXPECT_THAT(text_of(straggler), HasSubstr("waited for rank 1, 30.0 % of the time"));
}

TEST(RankTimesTest, OneRankIsNoCompany) {
  const std::vector<RankTimes> one(1);
  EXPECT_THROW(find_straggler(one), Error);
}

TEST(RankTimesTest, ARankThatComesLateIsFoundByAll) {
  parallel::testing::run_ranks(3, [](parallel::World& world) {
    const auto x = at::ones({4});
    world.all().barrier("all are here");
    world.take_wait_seconds();
    for (int i = 0; i < 5; ++i) {
      if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      world.all().all_reduce(x, "numbers");
    }
    const RankTimes own{.seconds = 1, .data = 0, .comm = world.take_wait_seconds()};
    EXPECT_EQ(world.take_wait_seconds(), 0);
    const auto times = gather_times(own, world.all());
    ASSERT_EQ(times.size(), 3u);
    EXPECT_EQ(times[static_cast<size_t>(world.rank())].comm, own.comm);
    EXPECT_EQ(find_straggler(times).rank, 2);
  });
}

}  // namespace
}  // namespace fovea::train
