#include "fovea/nn/attention_pool.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

AttentionPool pool() {
  AttentionPool result(AttentionPoolOptions{.dim = 8, .num_heads = 2, .mlp_ratio = 2}, at::kCPU);
  randomize(*result, 1);
  return result;
}

TEST(AttentionPoolTest, DoesNotMindTheOrderOfTokens) {
  const auto x = support::random({3, 5, 8}, at::kFloat, 4);
  const auto y = pool()(x);
  EXPECT_EQ(y.sizes(), (at::IntArrayRef{3, 8}));
  support::expect_close(pool()(x.flip(1)), y, at::kFloat, "y");
}

TEST(AttentionPoolTest, PoolsEachSampleByItself) {
  const auto x = support::random({3, 5, 8}, at::kFloat, 4);
  support::expect_close(pool()(x.narrow(0, 1, 1)), pool()(x).narrow(0, 1, 1), at::kFloat, "y");
}

TEST(AttentionPoolTest, RefusesAWidthThatHeadsDoNotDivide) {
  EXPECT_THROW(AttentionPool(AttentionPoolOptions{.dim = 8, .num_heads = 3}, at::kCPU), Error);
}

}  // namespace
}  // namespace fovea::nn
