#include "fovea/nn/variable_embed.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"

namespace fovea::nn {
namespace {

void fill_at_random(torch::nn::Module& module, uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters())
    item.value().copy_(support::random(item.value().sizes().vec(), at::kFloat, seed++) * 0.5);
}

// Attention of one query, head by head and place by place.
TEST(VariableAggregationTest, IsTheAttentionOfOneQuery) {
  constexpr int64_t kDim = 6, kHeads = 2, kHeadDim = 3;
  VariableAggregation aggregation(kDim, kHeads, at::Device(at::kCPU));
  fill_at_random(*aggregation, 1);
  aggregation->to(at::kDouble);
  const auto x = support::random({2, 3, 4, kDim}, at::kDouble, 10);  // [B, L, V, D]
  const auto query = support::random({1, 1, kDim}, at::kDouble, 11);
  const auto found = aggregation->forward(x, query);
  ASSERT_EQ(found.sizes(), at::IntArrayRef({2, 3, kDim}));
  const auto p = aggregation->named_parameters();
  const auto q = p["q.weight"].matmul(query.flatten());
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t l = 0; l < 3; ++l) {
      const auto keys = x[b][l].matmul(p["kv.weight"].slice(0, 0, kDim).t());  // [V, D]
      const auto values = x[b][l].matmul(p["kv.weight"].slice(0, kDim).t());   // [V, D]
      std::vector<at::Tensor> heads;
      for (int64_t h = 0; h < kHeads; ++h) {
        const auto of_head = [&](const at::Tensor& t) {
          return t.slice(-1, h * kHeadDim, (h + 1) * kHeadDim);
        };
        const auto weights =
            (of_head(keys).matmul(of_head(q)) / std::sqrt(double{kHeadDim})).softmax(0);
        heads.push_back(of_head(values).t().matmul(weights));
      }
      const auto expected = p["proj.weight"].matmul(at::cat(heads)) + p["proj.bias"];
      support::expect_close(found[b][l], expected, at::kDouble, "token");
    }
  }
}

VariableEmbed grid_embed(const VariableEmbedOptions& options) {
  VariableEmbed embed(options,
                      PatchEmbedOptions{.patch_size = {2, 2}, .in_chans = 1, .dim = options.dim},
                      at::Device(at::kCPU));
  fill_at_random(*embed, 1);
  embed->to(at::kDouble);
  return embed;
}

TEST(VariableEmbedTest, GradientsAreDerivatives) {
  auto embed = grid_embed({.num_variables = 3, .dim = 4, .num_heads = 2});
  support::expect_gradients_are_derivatives(
      [&](const auto& inputs) {
        return embed->forward(inputs[0], {2, 0});
      },
      {support::random({1, 2, 4, 2}, at::kDouble, 3)});
}

TEST(VariableEmbedTest, TheTokensOfAChannelAreThoseOfItsTokeniserAndVariable) {
  auto embed = grid_embed({.num_variables = 3, .dim = 4, .num_heads = 2, .is_aggregated = false});
  const auto images = support::random({2, 1, 4, 4}, at::kDouble, 3);
  PatchEmbed tokenizer(PatchEmbedOptions{.patch_size = {2, 2}, .in_chans = 1, .dim = 4},
                       at::Device(at::kCPU));
  tokenizer->to(at::kDouble);
  const auto parameters = embed->named_parameters();
  {
    const at::NoGradGuard no_grad;
    for (const auto& item : tokenizer->named_parameters())
      item.value().copy_(parameters["token_embeds.2." + item.key()]);
  }
  const auto expected = tokenizer->forward(images) + parameters["var_embed"].narrow(1, 2, 1);
  support::expect_same_bits(embed->forward(images, {2}), expected, "tokens");
}

TEST(VariableEmbedTest, RefusesChannelsThatAreNotItsVariables) {
  auto embed = grid_embed({.num_variables = 3, .dim = 4, .num_heads = 2});
  const auto images = support::random({1, 2, 4, 4}, at::kDouble, 3);
  EXPECT_THROW(embed->forward(images, {0}), Error);
  EXPECT_THROW(embed->forward(images, at::IntArrayRef()), Error);
  auto single = grid_embed({.num_variables = 3, .dim = 4, .num_heads = 2, .is_aggregated = false});
  EXPECT_THROW(single->forward(images, {0, 1}), Error);
  EXPECT_THROW(VariableAggregation(5, 2, at::Device(at::kCPU)), Error);
}

TEST(TakeTest, GivesEntriesInOrder) {
  const auto x = support::random({2, 3, 4}, at::kFloat, 1);
  EXPECT_TRUE(take(x, 1, {0, 1, 2}).is_same(x));
  support::expect_same_bits(take(x, 1, {2, 0}), at::cat({x.narrow(1, 2, 1), x.narrow(1, 0, 1)}, 1),
                            "entries");
}

}  // namespace
}  // namespace fovea::nn
