#include "fovea/nn/block.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fovea/nn/forward_context.h"
#include "tests/nn/layers_common.h"
#include "tests/support/parity.h"

namespace fovea::nn {
namespace {

BlockOptions options(bool has_layer_scale) {
  return {.attention = {.dim = 8, .num_heads = 2},
          .mlp = {.dim = 8, .hidden_dim = 16},
          .has_layer_scale = has_layer_scale};
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

// Without a scale the layers behind the branches add the residual, unless somebody looks at them.
TEST(BlockTest, BranchesAreSeenWithoutTheResidual) {
  Block block(options(false), at::kCPU);
  randomize(*block, 1);
  const auto x = support::random({2, 3, 8}, at::kFloat, 4);
  const auto unseen = block(x);
  assign_names(*block);
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"attn", "mlp"}, {"attn.proj", "mlp.fc2"}}) {
    const RecordScope scope(names);
    support::expect_same_bits(block(x), unseen, "y");
    at::Tensor sum = x;
    for (const auto& [name, tensor] : scope.intermediates()) sum = sum + tensor;
    EXPECT_EQ(scope.intermediates().size(), 2U);
    support::expect_close(unseen, sum, at::kFloat, names[0]);
  }
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

// The same draws, of what is dropped and within the branches, so the same results and gradients;
// also where no sample of a batch is kept.
TEST(BlockTest, SkippingDroppedSamplesChangesNothingButRounding) {
  for (const double rate : {0.5, 0.999}) {
    auto plain = options(true);
    plain.attention.proj_drop_rate = plain.attention.attn_drop_rate = plain.mlp.drop_rate = 0.3;
    plain.drop_path_rate = rate;
    auto skipping = plain;
    skipping.drop_path_skip = true;
    std::vector<support::NamedTensors> results;
    for (const auto& choice : {plain, skipping}) {
      Block block(choice, at::kCPU);
      randomize(*block, 1);
      block->to(at::kDouble);
      assign_names(*block);
      support::NamedTensors result;
      const auto x = support::random({8, 3, 8}, at::kDouble, 4).set_requires_grad(true);
      const auto mask = at::ones({8, 3}, at::kBool);
      mask[2][1] = false;
      for (int64_t step = 0; step < 3; ++step) {
        const StepScope scope(1, step, at::arange(30, 38));
        const auto y = block(x, mask);
        result[fmt::format("{}/y", step)] = y;
        (y * support::random({8, 3, 8}, at::kDouble, 9)).sum().backward();
      }
      result["dx"] = x.grad();
      for (const auto& item : block->named_parameters()) {
        ASSERT_TRUE(item.value().grad().defined()) << item.key();
        result[item.key()] = item.value().grad();
      }
      results.push_back(result);
    }
    EXPECT_PARITY(results[1], results[0], at::kDouble);
  }
}

// What is counted are the products: with half of the samples dropped about half of them are left.
TEST(BlockTest, SkippingComputesTheKeptSamplesAlone) {
  auto skipping = options(true);
  skipping.drop_path_rate = 0.5;
  skipping.drop_path_skip = true;
  Block block(skipping, at::kCPU);
  randomize(*block, 1);
  assign_names(*block);
  std::vector<int64_t> seen;
  const auto attention = std::dynamic_pointer_cast<UnitImpl>(block->named_children()["attn"]);
  attention->on_output.push_back([&](const at::Tensor& y) { seen.push_back(y.size(0)); });
  const auto x = support::random({64, 3, 8}, at::kFloat, 4);
  const StepScope scope(1, 0, at::arange(64));
  const auto y = block(x);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_GT(seen[0], 16);
  EXPECT_LT(seen[0], 48);
  block->eval();
  block(x);
  EXPECT_EQ(seen.back(), 64);
}

// What a Linear gets of a norm can be normed again, but where somebody stands around the norm and
// may give another tensor.
TEST(NormTest, TellsALinearWhatItsRowsAreMadeOf) {
  Norm norm(8, NormOptions{}, at::Device(at::kCPU));
  {
    const at::NoGradGuard no_grad;
    norm->weight.fill_(2);
    norm->bias.fill_(1);
  }
  const auto x = support::random({3, 8}, at::kFloat, 1);
  const auto input = norm->for_linear(x);
  support::expect_same_bits(input.x, norm(x), "rows");
  ASSERT_TRUE(input.normed.rows.has_value());
  support::expect_same_bits(kernels::norm_again(*input.normed.rows, input.x.scalar_type()), input.x,
                            "rows made again");
  {
    const at::NoGradGuard no_grad;
    EXPECT_FALSE(norm->for_linear(x).normed.rows.has_value()) << "nobody takes gradients";
  }
  norm->around_forward.push_back(
      [](const UnitForward& forward, const std::vector<at::Tensor>& inputs) {
        return forward(inputs) * 3;
      });
  const auto changed = norm->for_linear(x);
  support::expect_same_bits(changed.x, input.x * 3, "rows");
  EXPECT_FALSE(changed.normed.rows.has_value());
}

}  // namespace
}  // namespace fovea::nn
