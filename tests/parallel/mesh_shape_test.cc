#include "fovea/parallel/mesh_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::parallel {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MeshShapeTest, InnerAxesAreNeighbours) {
  const MeshShape shape{.sizes = {2, 3, 1, 4}};
  EXPECT_EQ(shape.num_ranks(), 24);
  EXPECT_THAT(shape.coordinates(0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(shape.coordinates(23), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(shape.coordinates(17), ElementsAre(1, 1, 0, 1));
  const std::array tp = {MeshAxis::kTp}, shard = {MeshAxis::kDpShard};
  const std::array data = {MeshAxis::kDpReplicate, MeshAxis::kDpShard};
  EXPECT_THAT(shape.group_of(17, tp), ElementsAre(16, 17, 18, 19));
  EXPECT_THAT(shape.group_of(17, shard), ElementsAre(13, 17, 21));
  EXPECT_THAT(shape.group_of(17, data), ElementsAre(1, 5, 9, 13, 17, 21));
}

TEST(MeshShapeTest, FillsInCopies) {
  EXPECT_THAT(mesh_shape({}, 6, 256).sizes, ElementsAre(6, 1, 1, 1));
  EXPECT_THAT(mesh_shape({.dp_replicate = 2}, 2, 256).sizes, ElementsAre(2, 1, 1, 1));
}

TEST(MeshShapeTest, NamesEveryFaultAtOnce) {
  try {
    mesh_shape({.dp_replicate = 8}, 4, 5);
    FAIL() << "a mesh of 8 in 4 processes was accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("dp_replicate 8 x dp_shard 1 x cp 1 x tp 1 is 8 processes, but "
                                "there are 4"),
                      HasSubstr("data.global_batch_size: found 5 for 8 parts")));
  }
}

TEST(MeshShapeTest, TokensAreSharedOutAmongTheRanksOfTp) {
  ConfigIssues issues;
  ParallelConfig{.sequence_parallel = true}.validate(issues);
  ASSERT_EQ(issues.all().size(), 1u);
  EXPECT_EQ(issues.all()[0].key, "sequence_parallel");
  ConfigIssues none;
  ParallelConfig{}.validate(none);
  ParallelConfig{.tp = 2, .sequence_parallel = true}.validate(none);
  ParallelConfig{.dp_shard = 2, .cpu_offload = true}.validate(none);
  EXPECT_TRUE(none.all().empty());
}

}  // namespace
}  // namespace fovea::parallel
