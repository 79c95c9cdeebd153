#include "fovea/parallel/collective_check.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "fovea/core/error.h"
#include "tests/data/support.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

using data::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;

TEST(CollectiveCheckTest, RanksThatDoTheSameAreNotDisturbed) {
  run_ranks(3, [](World& world) {
    world.check_collectives();
    const auto x = at::ones({100}), parts = at::empty({300});
    const auto pair = world.rank() < 2 ? world.make_group({0, 1}) : nullptr;
    for (int i = 0; i < 20; ++i) {
      world.all().all_reduce(x, "numbers");
      if (pair) pair->all_reduce(at::ones({4}), "of two");  // the third rank has no part in it
      const auto first = world.all().start_all_gather(parts, x, "numbers");
      world.all().barrier("here");
      first->wait();
      x.fill_(1);
    }
    EXPECT_EQ(world.all().counts().at(Collective::kAllReduce).calls, 20);
  });
}

// The ranks end there: there is nobody to leave with.
[[noreturn]] void end_rank() { _exit(::testing::Test::HasFailure() ? 1 : 0); }

TEST(CollectiveCheckTest, ACollectiveThatDiffersIsNamedOnBothRanks) {
  run_ranks(2, [](World& world) {
    world.check_collectives();
    auto& ranks = world.all();
    ranks.set_name("dp_shard");
    const auto x = at::ones({8}), y = at::ones({4}), whole = at::empty({8});
    ranks.all_reduce(x, "equal");
    const auto fault = message_of<Error>([&] {
      world.is_first() ? ranks.all_reduce(x, "gradients") : ranks.all_gather(whole, y, "weights");
    });
    const char* reduce = "all_reduce of gradients, 32 bytes into 32 of Float (dp_shard)";
    const char* gather = "all_gather of weights, 16 bytes into 32 of Float (dp_shard)";
    EXPECT_THAT(
        fault, AllOf(HasSubstr("collective 1 of its group"), HasSubstr(reduce), HasSubstr(gather)));
    EXPECT_THAT(
        fault, HasSubstr(world.is_first() ? "of rank 1 is all_gather" : "of rank 0 is all_reduce"));
    EXPECT_TRUE(x.equal(at::full({8}, 2))) << "nothing was added to what was there";
    end_rank();
  });
}

// Of one kind and size, so that without the check only the numbers are wrong.
TEST(CollectiveCheckTest, ACollectiveThatARankLeavesOutIsFoundAtTheNext) {
  run_ranks(2, [](World& world) {
    world.check_collectives();
    auto& ranks = world.all();
    const auto x = at::ones({8});
    const auto fault = message_of<Error>([&] {
      if (world.is_first()) ranks.all_reduce(x, "gradients of blocks.1");
      ranks.all_reduce(x, "gradients of blocks.0");
    });
    EXPECT_THAT(fault, AllOf(HasSubstr("collective 0 of its group"), HasSubstr("blocks.1"),
                             HasSubstr("blocks.0")));
    end_rank();
  });
}

}  // namespace
}  // namespace fovea::parallel
