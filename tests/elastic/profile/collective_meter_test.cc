#include "fovea/elastic/profile/collective_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/parallel/run_ranks.h"

namespace fovea::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(CollectiveMeterTest, EachCollectiveOfEachSizeIsMeasured) {
  parallel::testing::run_ranks(2, [](parallel::World& world) {
    int pauses = 0;
    const auto points = measure_collectives(
        world.all(),
        {.place = "intra", .bytes = {1 << 10, 1 << 16}, .repeats = 3, .pause = [&] { ++pauses; }});
    EXPECT_EQ(pauses, 2);
    ASSERT_EQ(points.size(), 6U);
    std::set<std::string> collectives;
    double sum = 0;
    for (const auto& point : points) {
      collectives.insert(point.collective);
      EXPECT_EQ(point.place, "intra");
      EXPECT_EQ(point.ranks, 2);
      EXPECT_GT(point.ms, 0);
      sum += point.ms;
    }
    EXPECT_EQ(points[0].bytes, 1 << 10);
    EXPECT_EQ(points[5].bytes, 1 << 16);
    EXPECT_THAT(collectives, ElementsAre("all_gather", "all_reduce", "reduce_scatter"));
    // The slowest rank's, on all of them.
    EXPECT_EQ(parallel::max_over_ranks(world.all(), sum, "a check"), sum);
  });
}

TEST(CollectiveMeterTest, SizesReachTheLargestBucket) {
  EXPECT_EQ(sizes_to_measure({}).back(), 4 << 20);
  const auto sizes = sizes_to_measure({1, 25.5, 3});
  EXPECT_EQ(sizes.front(), 16 << 10);
  EXPECT_EQ(sizes.back(), int64_t{51} << 19);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
}

TEST(CollectiveMeterTest, GroupsGrowToAllRanks) {
  EXPECT_THAT(rank_counts(1), IsEmpty());
  EXPECT_THAT(rank_counts(2), ElementsAre(2));
  EXPECT_THAT(rank_counts(6), ElementsAre(2, 4, 6));
}

}  // namespace
}  // namespace fovea::elastic
