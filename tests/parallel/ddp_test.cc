#include "fovea/parallel/ddp.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/parallel/run_ranks.h"

namespace fovea::parallel {
namespace {

using testing::run_ranks;

// Leaves of some sizes with their gradients in one buffer, each padded to a multiple of 16 as the
// optimizer does.
struct Leaves {
  Leaves(const std::vector<int64_t>& sizes, at::ScalarType dtype) {
    int64_t end = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto leaf = at::ones({sizes[i]}, dtype).set_requires_grad(true);
      params.push_back({"p" + std::to_string(i), leaf, end});
      end += (sizes[i] + 15) / 16 * 16;
    }
    flat = at::zeros({end}, dtype);
    for (auto& param : params) {
      param.param.mutable_grad() = flat.narrow(0, param.begin, param.param.numel());
    }
  }

  // Sum over the chosen leaves of factor * (i + 1) * sum(leaf): gradients are factor * (i + 1).
  at::Tensor loss(double factor, const std::vector<size_t>& chosen) const {
    auto sum = at::zeros({}, flat.options());
    for (const size_t i : chosen) sum = sum + params[i].param.sum() * factor * (i + 1.0);
    return sum;
  }

  void expect_gradients(const std::vector<double>& expected) const {
    for (size_t i = 0; i < params.size(); ++i) {
      const auto grad = params[i].param.grad();
      EXPECT_TRUE(grad.equal(at::full_like(grad, expected[i]))) << params[i].name << grad;
    }
  }

  std::vector<FlatParameter> params;
  at::Tensor flat;
};

const ReducerOptions kSmallBuckets = {.bucket_bytes = 400, .first_bucket_bytes = 100};

TEST(GradientReducerTest, OneRankReducesNothing) {
  const Leaves leaves({10, 20}, at::kFloat);
  GradientReducer reducer(leaves.params, leaves.flat, one_rank());
  EXPECT_TRUE(reducer.buckets().empty());
  reducer.before_backward(/*is_last=*/true);
  leaves.loss(1, {0, 1}).backward();
  reducer.finish();
  leaves.expect_gradients({1, 2});
}

TEST(GradientReducerTest, BucketsCoverTheBufferFromItsEnd) {
  run_ranks(2, [](World& world) {
    const Leaves leaves({10, 20, 30, 40, 50}, at::kFloat);  // 16 + 32 + 32 + 48 + 64
    const GradientReducer reducer(leaves.params, leaves.flat, world.all(), kSmallBuckets);
    const auto buckets = reducer.buckets();
    ASSERT_EQ(buckets.size(), 3u);
    EXPECT_EQ(buckets[0].begin, 128);
    EXPECT_EQ(buckets[0].end, 192);
    EXPECT_EQ(buckets[1].begin, 16);
    EXPECT_EQ(buckets[1].end, 128);
    EXPECT_EQ(buckets[2].end, 16);
    EXPECT_EQ(buckets[2].begin, 0);
  });
}

TEST(GradientReducerTest, SumsOverRanksAndMicroBatchesInOneRound) {
  run_ranks(3, [](World& world) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      const Leaves leaves({10, 20, 30, 40, 50}, dtype);
      GradientReducer reducer(leaves.params, leaves.flat, world.all(), kSmallBuckets);
      for (int step = 0; step < 2; ++step) {
        leaves.flat.zero_();
        world.all().reset_counts();
        // Rank r runs r + 1 micro-batches.
        for (int64_t micro = 0; micro <= world.rank(); ++micro) {
          reducer.before_backward(micro == world.rank());
          leaves.loss(1, {0, 1, 2, 3, 4}).backward();
        }
        reducer.finish();
        leaves.expect_gradients({6, 12, 18, 24, 30});
        const auto bytes = static_cast<int64_t>(leaves.flat.nbytes());
        const CollectiveCounts expected = {
            {Collective::kAllReduce, {static_cast<int64_t>(reducer.buckets().size()), bytes}}};
        EXPECT_EQ(world.all().counts(), expected);
      }
    }
  });
}

// Ranks that use other parameters, in another order, or none at all still exchange the same.
TEST(GradientReducerTest, UnusedParametersCountAsZeros) {
  run_ranks(3, [](World& world) {
    const Leaves leaves({10, 20, 30, 40, 50}, at::kFloat);
    GradientReducer reducer(leaves.params, leaves.flat, world.all(), kSmallBuckets);
    if (world.rank() == 0) {
      reducer.before_backward(/*is_last=*/true);
      leaves.loss(1, {4, 0, 2}).backward();
    } else if (world.rank() == 1) {
      reducer.before_backward(/*is_last=*/true);
      leaves.loss(10, {1, 2, 2}).backward();  // used twice
    }
    reducer.finish();
    leaves.expect_gradients({1, 20, 63, 0, 5});
  });
}

TEST(GradientReducerTest, ExchangeStartsBeforeBackwardEnds) {
  run_ranks(2, [](World& world) {
    const Leaves leaves({64, 64}, at::kFloat);
    GradientReducer reducer(leaves.params, leaves.flat, world.all(), kSmallBuckets);
    reducer.before_backward(/*is_last=*/true);
    world.all().reset_counts();
    // The graph of the second leaf alone: its bucket goes though the first one has no gradient yet.
    leaves.loss(1, {1}).backward();
    EXPECT_EQ(world.all().counts().at(Collective::kAllReduce).calls, 1);
    leaves.loss(1, {0}).backward();
    EXPECT_EQ(world.all().counts().at(Collective::kAllReduce).calls, 2);
    reducer.finish();
    leaves.expect_gradients({2, 4});
  });
}

TEST(GradientReducerTest, AGradientAfterItsBucketIsRefused) {
  run_ranks(2, [](World& world) {
    const Leaves leaves({64, 64}, at::kFloat);
    GradientReducer reducer(leaves.params, leaves.flat, world.all(), kSmallBuckets);
    reducer.before_backward(/*is_last=*/true);
    leaves.loss(1, {1}).backward();
    EXPECT_THROW(leaves.loss(1, {1}).backward(), Error);
    reducer.finish();
  });
}

TEST(GradientReducerTest, BFloat16TravelsInHalfTheBytesAndSumsInFloat32) {
  run_ranks(3, [](World& world) {
    const Leaves leaves({50, 7}, at::kFloat);
    GradientReducer reducer(leaves.params, leaves.flat, world.all(), {.wire_dtype = at::kBFloat16});
    ASSERT_EQ(reducer.buckets().size(), 1u);
    world.all().reset_counts();
    for (int step = 0; step < 2; ++step) {
      leaves.flat.zero_();
      reducer.before_backward(/*is_last=*/true);
      // 256 + 1 + 1: a sum in bfloat16 that rounds after each addition stays at 256.
      leaves.loss(world.rank() == 0 ? 256 : 1, {0, 1}).backward();
      reducer.finish();
      leaves.expect_gradients({258, 516});
    }
    const int64_t elements = (leaves.flat.numel() + 2) / 3 * 3;
    const CollectiveCounts expected = {{Collective::kAllToAll, {2, 2 * 2 * elements}},
                                       {Collective::kAllGather, {2, 2 * 2 * elements}}};
    EXPECT_EQ(world.all().counts(), expected);
  });
}

}  // namespace
}  // namespace fovea::parallel
