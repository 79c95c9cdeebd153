#include "fovea/nn/attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

constexpr int64_t kDim = 8, kNumHeads = 2;

// One head at a time, from the definition. x: [B, N, D].
at::Tensor plain_attention(AttentionImpl& attention, const at::Tensor& x) {
  const auto parameters = attention.named_parameters();
  const auto qkv = at::matmul(x, parameters["qkv.weight"].t()) + parameters["qkv.bias"];
  const auto head_dim = kDim / kNumHeads;
  std::vector<at::Tensor> heads;
  for (int64_t h = 0; h < kNumHeads; ++h) {
    const auto part = [&](int64_t which) {
      return qkv.narrow(-1, which * kDim + h * head_dim, head_dim);
    };
    const auto scores = at::matmul(part(0), part(1).transpose(1, 2)) / std::sqrt(head_dim);
    heads.push_back(at::matmul(at::softmax(scores, -1), part(2)));
  }
  return at::matmul(at::cat(heads, -1), parameters["proj.weight"].t()) + parameters["proj.bias"];
}

TEST(AttentionTest, IsTheDefinitionHeadByHead) {
  Attention attention(AttentionOptions{.dim = kDim, .num_heads = kNumHeads}, at::kCPU);
  randomize(*attention, 1);
  const auto x = support::random({2, 5, kDim}, at::kFloat, 7);
  support::expect_close(attention(x), plain_attention(*attention, x), at::kFloat, "y");
}

TEST(AttentionTest, KeepsTheNamesOfItsOptionalNorms) {
  const AttentionOptions options{
      .dim = kDim, .num_heads = kNumHeads, .qk_norm = true, .scale_norm = true};
  EXPECT_EQ(Attention(options, at::kCPU)->named_parameters().keys(),
            (std::vector<std::string>{"qkv.weight", "qkv.bias", "q_norm.weight", "q_norm.bias",
                                      "k_norm.weight", "k_norm.bias", "norm.weight", "norm.bias",
                                      "proj.weight", "proj.bias"}));
}

TEST(AttentionTest, ShowsProbabilitiesThatSumToOne) {
  Attention attention(AttentionOptions{.dim = kDim, .num_heads = kNumHeads}, at::kCPU);
  randomize(*attention, 1);
  attention->set_path("attn");
  const auto x = support::random({2, 5, kDim}, at::kFloat, 7);
  const auto without = attention(x);
  const RecordScope scope({"attn.probs"});
  support::expect_close(attention(x), without, at::kFloat, "y");
  ASSERT_EQ(scope.intermediates().size(), 1U);
  const auto probabilities = scope.intermediates()[0].second;
  EXPECT_EQ(probabilities.sizes(), (at::IntArrayRef{2, kNumHeads, 5, 5}));
  support::expect_close(probabilities.sum(-1), at::ones({2, kNumHeads, 5}), at::kFloat, "sums");
}

TEST(AttentionTest, DropsDependOnTheStep) {
  Attention attention(AttentionOptions{.dim = kDim, .num_heads = kNumHeads, .attn_drop_rate = 0.5},
                      at::kCPU);
  randomize(*attention, 1);
  const auto x = support::random({2, 5, kDim}, at::kFloat, 7);
  const auto at_step = [&](int64_t step) {
    const StepScope scope(1, step, at::arange(2));
    return attention(x);
  };
  support::expect_same_bits(at_step(3), at_step(3), "the same step twice");
  EXPECT_FALSE(at_step(3).equal(at_step(4)));
}

TEST(AttentionTest, RefusesAWidthThatHeadsDoNotDivide) {
  EXPECT_THROW(Attention(AttentionOptions{.dim = 8, .num_heads = 3}, at::kCPU), Error);
}

// Through the kernel of packed sequences, and, with norms of queries and keys, one by one.
TEST(AttentionTest, SamplesInARowAttendWithinThemselves) {
  for (const bool has_norms : {false, true}) {
    Attention attention(AttentionOptions{.dim = kDim, .num_heads = kNumHeads, .qk_norm = has_norms},
                        at::kCPU);
    randomize(*attention, 1);
    const auto x = support::random({1, 9, kDim}, at::kFloat, 7);
    const auto offsets = at::tensor({0, 5, 6, 9}, at::kLong);
    std::vector<at::Tensor> alone;
    for (const auto& sample : x.split_with_sizes({5, 1, 3}, 1)) alone.push_back(attention(sample));
    support::expect_close(attention(x, at::Tensor(), offsets), at::cat(alone, 1), at::kFloat, "y");
    EXPECT_THROW(attention(x, at::ones({1, 9}, at::kBool), offsets), Error);
  }
}

TEST(AttentionTest, ShowsTheProbabilitiesOfEachSampleInARow) {
  Attention attention(AttentionOptions{.dim = kDim, .num_heads = kNumHeads}, at::kCPU);
  randomize(*attention, 1);
  attention->set_path("attn");
  const RecordScope scope({"attn.probs"});
  attention(support::random({1, 9, kDim}, at::kFloat, 7), at::Tensor(),
            at::tensor({0, 5, 9}, at::kLong));
  ASSERT_EQ(scope.intermediates().size(), 2U);
  EXPECT_EQ(scope.intermediates()[0].second.sizes(), (at::IntArrayRef{1, kNumHeads, 5, 5}));
  EXPECT_EQ(scope.intermediates()[1].second.sizes(), (at::IntArrayRef{1, kNumHeads, 4, 4}));
}

}  // namespace
}  // namespace fovea::nn
