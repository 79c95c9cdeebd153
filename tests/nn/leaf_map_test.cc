// Tokens of leaves on the cells of a grid, against pixel by pixel.
#include "fovea/nn/leaf_map.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/core/philox.h"
#include "tests/reference/leaf_map.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"

namespace fovea::nn {
namespace {

using Sides = std::vector<int64_t>;

// [2, L, 2, d]: images cut in two again and again, along the longest side of the largest leaf, into
// parts that differ; of the second sample the last patch is padding.
at::Tensor leaf_boxes(const Sides& image, int64_t length) {
  const auto d = static_cast<int64_t>(image.size());
  auto boxes = at::zeros({2, length, 2, d}, at::kLong);
  for (int64_t b = 0; b < 2; ++b) {
    RandomStream random(PhiloxKey{11, static_cast<uint32_t>(b)}, 0);
    for (int64_t axis = 0; axis < d; ++axis)
      boxes[b][0][1][axis] = image[static_cast<size_t>(axis)];
    for (int64_t count = 1; count < length - b; ++count) {
      const auto largest = boxes[b].select(1, 1).prod(-1).argmax().item<int64_t>();
      auto leaf = boxes[b][largest], other = boxes[b][count];
      const auto axis = leaf[1].argmax().item<int64_t>();
      const auto side = leaf[1][axis].item<int64_t>();
      const auto cut = 1 + static_cast<int64_t>(random.below(static_cast<uint32_t>(side - 1)));
      other.copy_(leaf);
      leaf[1][axis] = cut;
      other[0][axis] += cut;
      other[1][axis] = side - cut;
    }
  }
  return boxes;
}

struct LeafCase {
  const char* name;
  Sides image, cell;
  int64_t length;
};

Sides grid_of_case(const LeafCase& item) {
  Sides grid;
  for (size_t i = 0; i < item.image.size(); ++i) grid.push_back(item.image[i] / item.cell[i]);
  return grid;
}

class LeafMapTest : public ::testing::TestWithParam<LeafCase> {};

TEST_P(LeafMapTest, EqualsPixelByPixelWithItsGradient) {
  const auto& item = GetParam();
  const auto boxes = leaf_boxes(item.image, item.length);
  const auto tokens = support::random({2, item.length, 3}, at::kDouble, 1).requires_grad_();
  const auto same = tokens.detach().clone().requires_grad_();
  const auto cells = cells_of_leaves(boxes, grid_of_case(item), item.cell);
  const auto map = tokens_on_cells(tokens, cells);
  const auto expected = reference::tokens_on_cells(same, boxes, item.image, item.cell);
  const auto slope = support::random(map.sizes().vec(), at::kDouble, 2);
  (map.square() * slope).sum().backward();
  (expected.square() * slope).sum().backward();
  const support::NamedTensors found = {{"map", map.detach()}, {"gradient", tokens.grad()}};
  const support::NamedTensors wanted = {{"map", expected.detach()}, {"gradient", same.grad()}};
  EXPECT_PARITY(found, wanted, at::kFloat);  // shares are float32
}

TEST_P(LeafMapTest, SharesOfACellSumToOneAndPaddingHasNone) {
  const auto& item = GetParam();
  const auto boxes = leaf_boxes(item.image, item.length);
  const auto cells = cells_of_leaves(boxes, grid_of_case(item), item.cell);
  const auto ones = tokens_on_cells(at::ones({2, item.length, 1}), cells);
  support::expect_close(ones, at::ones(ones.sizes()), at::kFloat, "shares");
  ASSERT_EQ(boxes[1][item.length - 1].abs().max().item<int64_t>(), 0) << "no padding to see";
  const auto last = 2 * item.length - 1;
  EXPECT_FALSE(cells.patches.eq(last).any().item<bool>());
}

const std::vector<LeafCase> kLeafCases = {
    {"square", {16, 16}, {4, 4}, 14},           {"oblong", {12, 20}, {4, 5}, 23},
    {"cells_of_one_pixel", {8, 8}, {1, 1}, 11}, {"one_cell", {8, 8}, {8, 8}, 17},
    {"cube", {8, 8, 8}, {2, 2, 2}, 30},         {"slab", {4, 8, 6}, {2, 4, 3}, 23}};

INSTANTIATE_TEST_SUITE_P(Forms, LeafMapTest, ::testing::ValuesIn(kLeafCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(LeafMapTest, NumericalGradient) {
  const auto cells = cells_of_leaves(leaf_boxes({8, 8}, 8), {2, 2}, {4, 4});
  const auto tokens = support::random({2, 8, 2}, at::kDouble, 3).requires_grad_();
  tokens_on_cells(tokens, cells).pow(3).sum().backward();
  constexpr double kStep = 1e-5;
  auto numerical = at::zeros(tokens.sizes(), at::kDouble);
  const at::NoGradGuard no_grad;
  for (int64_t i = 0; i < tokens.numel(); ++i) {
    const auto at_shift = [&](double shift) {
      auto shifted = tokens.detach().clone();
      shifted.flatten()[i] += shift;
      return tokens_on_cells(shifted, cells).pow(3).sum().item<double>();
    };
    numerical.flatten()[i] = (at_shift(kStep) - at_shift(-kStep)) / (2 * kStep);
  }
  support::expect_close(tokens.grad(), numerical, at::kFloat, "gradient");
}

TEST(LeafMapTest, ThreadsChangeNoBit) {
  const auto cells = cells_of_leaves(leaf_boxes({64, 64}, 300), {16, 16}, {4, 4});
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    const auto tokens = support::random({2, 300, 40}, at::kFloat, 3).requires_grad_();
    const auto map = tokens_on_cells(tokens, cells);
    map.square().sum().backward();
    return std::pair(map.detach(), tokens.grad());
  };
  const auto before = at::get_num_threads();
  const auto one = run(1), two = run(2);
  at::set_num_threads(before);
  support::expect_same_bits(two.first, one.first, "map");
  support::expect_same_bits(two.second, one.second, "gradient");
}

TEST(LeafMapTest, ASampleWithoutLeavesIsZero) {
  auto boxes = leaf_boxes({8, 8}, 8);
  boxes[1].zero_();
  const auto map = tokens_on_cells(at::ones({2, 8, 2}), cells_of_leaves(boxes, {2, 2}, {4, 4}));
  EXPECT_EQ(map[1].abs().max().item<float>(), 0.0f);
  EXPECT_EQ(map[0].min().item<float>(), 1.0f);
}

TEST(LeafMapTest, RefusesLeavesOutsideOfTheGrid) {
  const auto boxes = leaf_boxes({8, 8}, 8);
  EXPECT_THROW(cells_of_leaves(boxes, {1, 2}, {4, 4}), Error);
  EXPECT_THROW(cells_of_leaves(boxes, {2, 2, 2}, {4, 4, 4}), Error);
  EXPECT_THROW(cells_of_leaves(boxes.to(at::kFloat), {2, 2}, {4, 4}), Error);
}

}  // namespace
}  // namespace fovea::nn
