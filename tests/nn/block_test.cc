#include "fovea/nn/block.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

BlockOptions options(bool has_layer_scale) {
  return {.attention = {.dim = 8, .num_heads = 2},
          .mlp = {.dim = 8, .hidden_dim = 16},
          .has_layer_scale = has_layer_scale};
}

TEST(BlockTest, RatesRiseLinearlyToTheLastBlock) {
  EXPECT_EQ(drop_path_rates(0.5, 1), (std::vector<double>{0.0}));
  EXPECT_EQ(drop_path_rates(0.5, 3), (std::vector<double>{0.0, 0.25, 0.5}));
}

TEST(BlockTest, AddsBothBranchesToItsInput) {
  Block block(options(true), at::kCPU);
  randomize(*block, 1);
  const auto x = support::random({2, 3, 8}, at::kFloat, 4);
  const RecordScope scope;
  assign_names(*block);
  const auto y = block(x);
  at::Tensor sum = x;
  for (const auto& [name, tensor] : scope.intermediates()) {
    if (name == "ls1" || name == "ls2") sum = sum + tensor;
  }
  support::expect_close(y, sum, at::kFloat, "y");
}

// With a rate near one a sample keeps its residual stream alone.
TEST(BlockTest, DropPathLeavesTheInputOfDroppedSamples) {
  auto dropping = options(false);
  dropping.drop_path_rate = 0.999;
  Block block(dropping, at::kCPU);
  randomize(*block, 1);
  const auto x = support::random({2, 3, 8}, at::kFloat, 4);
  const StepScope scope(1, 0, at::tensor({0, 1}, at::kLong));
  support::expect_same_bits(block(x), x, "y");
}

}  // namespace
}  // namespace fovea::nn
