#include "fovea/nn/block_list.h"

#include <ATen/ops/arange.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/nn/block.h"
#include "tests/nn/layers_common.h"
#include "tests/support/parity.h"

namespace fovea::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Stack : torch::nn::Module {
  std::vector<double> rates;
  BlockList<TransformerBlock> blocks{*this, "blocks", 3, 0.5, [this](int64_t, double rate) {
                                       rates.push_back(rate);
                                       return make_block({.attention = {.dim = 8, .num_heads = 2},
                                                          .mlp = {.dim = 8, .hidden_dim = 16}},
                                                         at::kCPU);
                                     }};
};

TEST(BlockListTest, RatesRiseLinearlyToTheLastBlock) {
  EXPECT_THAT(drop_path_rates(0.5, 1), ElementsAre(0.0));
  EXPECT_THAT(drop_path_rates(0.5, 3), ElementsAre(0.0, 0.25, 0.5));
  EXPECT_THAT(Stack().rates, ElementsAre(0.0, 0.25, 0.5));
}

TEST(BlockListTest, BlocksHaveTheirNumbersAsNames) {
  const Stack stack;
  std::vector<std::string> names;
  for (const auto& item : stack.named_parameters()) {
    if (item.key().ends_with("norm1.weight")) names.push_back(item.key());
  }
  EXPECT_THAT(names, ElementsAre("blocks.0.norm1.weight", "blocks.1.norm1.weight",
                                 "blocks.2.norm1.weight"));
}

TEST(BlockListTest, RunsInOrderAndTaps) {
  Stack stack;
  randomize(stack, 1);
  stack.eval();
  const auto x = support::random({2, 3, 8}, at::kFloat, 4);
  const auto key_mask = at::arange(3).lt(2).expand({2, 3});
  auto expected = x;
  std::vector<at::Tensor> after;
  for (const auto& child : stack.named_children()["blocks"]->children()) {
    expected = std::dynamic_pointer_cast<TransformerBlockImpl>(child)->forward(expected, key_mask);
    after.push_back(expected);
  }
  support::expect_same_bits(stack.blocks(x, key_mask), expected, "y");
  std::vector<at::Tensor> tapped;
  const auto y = stack.blocks.forward_tapped({0, 2}, &tapped, x, key_mask);
  support::expect_same_bits(y, expected, "y");
  ASSERT_EQ(tapped.size(), 2U);
  support::expect_same_bits(tapped[0], after[0], "after the first");
  support::expect_same_bits(tapped[1], after[2], "after the last");
}

TEST(BlockListTest, RefusesTapsThatAreNoBlocksInOrder) {
  Stack stack;
  randomize(stack, 1);
  stack.eval();
  const auto x = support::random({2, 3, 8}, at::kFloat, 4);
  for (const std::vector<int64_t>& taps : {std::vector<int64_t>{3}, {1, 0}}) {
    std::vector<at::Tensor> tapped;
    try {
      stack.blocks.forward_tapped(taps, &tapped, x);
      FAIL() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("of 3 blocks; expected ascending indices of blocks"));
    }
  }
}

TEST(BlockListTest, WithoutBlocksNothingChanges) {
  BlockList<TransformerBlock> none;
  const auto x = support::random({2, 3, 8}, at::kFloat, 4);
  EXPECT_TRUE(none(x).is_same(x));
}

}  // namespace
}  // namespace fovea::nn
