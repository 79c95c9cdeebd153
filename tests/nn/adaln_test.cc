#include "fovea/nn/adaln.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "fovea/nn/forward_context.h"
#include "tests/nn/layers_common.h"
#include "tests/support/parity.h"

namespace fovea::nn {
namespace {

constexpr int64_t kWidth = 8, kCondition = 6;

ConditionedBlock conditioned_block(double drop_path_rate = 0.0, bool drop_path_skip = false) {
  return ConditionedBlock(ConditionedBlockOptions{.attention = {.dim = kWidth, .num_heads = 2},
                                                  .mlp = {.dim = kWidth, .hidden_dim = 16},
                                                  .condition_dim = kCondition,
                                                  .drop_path_rate = drop_path_rate,
                                                  .drop_path_skip = drop_path_skip},
                          at::kCPU);
}

TEST(AdaLnTest, ModulationIsALinearMapOfTheActivatedCondition) {
  Modulation modulation(kCondition, kWidth, 3, at::kCPU);
  randomize(*modulation, 1);
  const auto condition = support::random({2, kCondition}, at::kFloat, 5);
  const auto weights = modulation->named_parameters();
  const auto y = modulation(condition);
  ASSERT_EQ(y.sizes(), (at::IntArrayRef{3, 2, 1, kWidth}));
  const auto flat = at::silu(condition).matmul(weights["proj.weight"].t()) + weights["proj.bias"];
  for (int64_t i = 0; i < 3; ++i) {
    support::expect_close(y[i].squeeze(1), flat.narrow(1, i * kWidth, kWidth), at::kFloat, "part");
  }
}

TEST(AdaLnTest, ModulationIsPerSample) {
  const auto x = support::random({2, 3, 4}, at::kFloat, 1);
  const auto shift = support::random({2, 1, 4}, at::kFloat, 2);
  const auto scale = support::random({2, 1, 4}, at::kFloat, 3);
  const auto y = modulate(x, shift, scale);
  for (int64_t b = 0; b < 2; ++b) {
    support::expect_close(y[b], x[b] + x[b] * scale[b] + shift[b], at::kFloat, "y");
  }
}

TEST(AdaLnTest, NormsHaveNoParameters) {
  auto block = conditioned_block();
  for (const auto& item : block->named_parameters()) {
    EXPECT_EQ(item.key().find("norm"), std::string::npos) << item.key();
  }
  EXPECT_EQ(block->named_parameters().size(), 4 + 4 + 2);
}

// The zero start of adaLN-Zero: gates of zero leave the residual stream alone, to the bit.
TEST(AdaLnTest, ABlockWithoutModulationIsTheIdentity) {
  auto block = conditioned_block();
  randomize(*block, 1);
  const auto x = support::random({2, 3, kWidth}, at::kFloat, 4);
  const auto condition = support::random({2, kCondition}, at::kFloat, 5);
  EXPECT_FALSE(block(x, condition).equal(x));
  {
    const at::NoGradGuard no_grad;
    for (auto& item : block->named_parameters()) {
      if (item.key().starts_with("modulation.")) item.value().zero_();
    }
  }
  support::expect_same_bits(block(x, condition), x, "y");
}

TEST(AdaLnTest, DropPathLeavesTheInputOfDroppedSamples) {
  auto block = conditioned_block(0.999);
  randomize(*block, 1);
  assign_names(*block);
  const auto x = support::random({2, 3, kWidth}, at::kFloat, 4);
  const StepScope scope(1, 0, at::tensor({0, 1}, at::kLong));
  support::expect_same_bits(block(x, support::random({2, kCondition}, at::kFloat, 5)), x, "y");
}

TEST(AdaLnTest, SkippingDroppedSamplesChangesNothingButRounding) {
  std::vector<support::NamedTensors> results;
  for (const bool skips : {false, true}) {
    auto block = conditioned_block(0.5, skips);
    randomize(*block, 1);
    block->to(at::kDouble);
    assign_names(*block);
    const auto x = support::random({8, 3, kWidth}, at::kDouble, 4).set_requires_grad(true);
    const auto condition = support::random({8, kCondition}, at::kDouble, 5).set_requires_grad(true);
    const StepScope scope(1, 0, at::arange(8));
    const auto y = block(x, condition);
    (y * support::random({8, 3, kWidth}, at::kDouble, 9)).sum().backward();
    support::NamedTensors result = {{"y", y}, {"dx", x.grad()}, {"dcondition", condition.grad()}};
    for (const auto& item : block->named_parameters()) result[item.key()] = item.value().grad();
    results.push_back(result);
  }
  EXPECT_PARITY(results[1], results[0], at::kDouble);
}

}  // namespace
}  // namespace fovea::nn
