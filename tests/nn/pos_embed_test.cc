#include "fovea/nn/pos_embed.h"

#include <ATen/ops/stack.h>
#include <c10/util/accumulate.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/gradcheck.h"

namespace fovea::nn {
namespace {

struct ResizeCase {
  const char* name;
  PosEmbedInterp interp;
  std::vector<int64_t> old_grid, new_grid;
  int64_t num_prefix;
};

// As in tools/golden/make_pos_embed.py.
std::vector<ResizeCase> resize_cases() {
  return {{"bicubic_smaller", PosEmbedInterp::kBicubic, {6, 5}, {4, 3}, 1},
          {"bicubic_larger", PosEmbedInterp::kBicubic, {4, 4}, {7, 9}, 2},
          {"bilinear_mixed", PosEmbedInterp::kBilinear, {4, 6}, {7, 3}, 0},
          {"zoom_larger", PosEmbedInterp::kZoom, {4, 4}, {9, 6}, 1},
          {"zoom_smaller", PosEmbedInterp::kZoom, {6, 7}, {3, 1}, 1},
          {"dinov2_larger", PosEmbedInterp::kDinov2, {5, 5}, {8, 11}, 1},
          {"dinov2_smaller", PosEmbedInterp::kDinov2, {7, 7}, {4, 5}, 1},
          {"trilinear", PosEmbedInterp::kBicubic, {3, 4, 2}, {5, 3, 4}, 1},
          {"zoom_volume", PosEmbedInterp::kZoom, {3, 4, 2}, {5, 3, 4}, 0}};
}

TEST(PosEmbedTest, ResizesAsEachFamilyDoes) {
  const auto golden = support::load_golden("pos_embed.safetensors");
  support::NamedTensors resized, gradients, expected, expected_gradients;
  for (const auto& test : resize_cases()) {
    const auto group = golden.group(test.name);
    const auto table = group.at("table").clone().requires_grad_();
    const auto result =
        resize_pos_embed(table, test.old_grid, test.new_grid, test.num_prefix, test.interp);
    (result * group.at("weight")).sum().backward();
    resized[test.name] = result;
    gradients[test.name] = table.grad();
    expected[test.name] = group.at("resized");
    expected_gradients[test.name] = group.at("gradient");
  }
  EXPECT_PARITY(resized, expected, at::kFloat);
  EXPECT_PARITY(gradients, expected_gradients, at::kFloat);
}

TEST(PosEmbedTest, LeavesAnEqualGridAlone) {
  const auto table = support::random({1, 7, 4}, at::kFloat, 1);
  EXPECT_TRUE(resize_pos_embed(table, {2, 3}, {2, 3}, 1, PosEmbedInterp::kDinov2).is_same(table));
}

TEST(PosEmbedTest, KeepsTheDtypeOfTheTable) {
  const auto table = support::random({1, 5, 4}, at::kBFloat16, 1);
  const auto result = resize_pos_embed(table, {2, 2}, {3, 3}, 1, PosEmbedInterp::kBicubic);
  EXPECT_EQ(result.scalar_type(), at::kBFloat16);
}

TEST(PosEmbedTest, AdaptsATableOfAGridThatItDoesNotKnow) {
  const auto adapt = [](int64_t rows, at::IntArrayRef new_grid, int64_t num_prefix) {
    const auto table = support::random({1, rows, 4}, at::kFloat, 1);
    return std::pair(table, adapt_pos_embed(table, new_grid, num_prefix, PosEmbedInterp::kBicubic));
  };
  const auto expect_from = [&](at::IntArrayRef old_grid, at::IntArrayRef new_grid) {
    const auto [table, adapted] = adapt(1 + c10::multiply_integers(old_grid), new_grid, 1);
    EXPECT_TRUE(
        adapted.equal(resize_pos_embed(table, old_grid, new_grid, 1, PosEmbedInterp::kBicubic)));
  };
  expect_from({4, 4}, {2, 8});  // equal sides where they fit
  expect_from({2, 4}, {3, 6});  // else the proportions of the new grid
  expect_from({2, 2, 2}, {3, 4, 5});
  expect_from({2, 2, 3}, {4, 4, 6});
  EXPECT_FALSE(adapt(8, {3, 3}, 1).second.defined()) << "7 tokens are no grid of two equal sides";
  EXPECT_FALSE(adapt(1, {3, 3}, 1).second.defined());
}

TEST(PosEmbedTest, TellsTablesWithPrefixRows) {
  EXPECT_TRUE(has_prefix_rows(17, 1, 2));
  EXPECT_FALSE(has_prefix_rows(16, 1, 2));
  EXPECT_FALSE(has_prefix_rows(16, 2, 2));
  EXPECT_TRUE(has_prefix_rows(10, 2, 3));
  EXPECT_FALSE(has_prefix_rows(8, 1, 3));
  EXPECT_FALSE(has_prefix_rows(17, 0, 2));
  EXPECT_TRUE(has_prefix_rows(13, 1, 2)) << "12 = 3 * 4: neither has equal sides";
}

TEST(PosEmbedTest, RefusesATableOfAnotherGrid) {
  const auto table = support::random({1, 6, 4}, at::kFloat, 1);
  EXPECT_THROW(resize_pos_embed(table, {2, 2}, {3, 3}, 1, PosEmbedInterp::kBicubic), Error);
  EXPECT_THROW(pos_embed_interp_from_name("nearest"), ConfigError);
}

TEST(PosEmbedTest, MakesTheSinCosTablesOfTheReference) {
  const auto golden = support::load_golden("pos_embed.safetensors");
  const support::NamedTensors tables = {{"square", sincos_pos_embed({3, 3}, 16, 1)},
                                        {"wide", sincos_pos_embed({2, 5}, 8, 0)},
                                        {"volume", sincos_pos_embed({2, 3, 4}, 12, 2)}};
  EXPECT_PARITY(tables, golden.group("sincos"), at::kFloat);
  EXPECT_THROW(sincos_pos_embed({2, 3, 4}, 16, 0), Error);
}

// Place i of n lies at (i + 0.5) * G / n - 0.5 of G samples, the ends held.
at::Tensor resized_by_hand(const at::Tensor& table, int64_t places) {
  const auto old = table.size(1);
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < places; ++i) {
    const double at = std::clamp(
        (static_cast<double>(i) + 0.5) * static_cast<double>(old) / static_cast<double>(places) -
            0.5,
        0.0, static_cast<double>(old - 1));
    const auto left = static_cast<int64_t>(at);
    const auto right = std::min(left + 1, old - 1);
    const double share = at - static_cast<double>(left);
    rows.push_back(table.select(1, left) * (1 - share) + table.select(1, right) * share);
  }
  return at::stack(rows, 1);
}

TEST(PosEmbedTest, ResizesTheTableOfASideLinearly) {
  const auto table = support::random({1, 5, 4}, at::kDouble, 1);
  for (const int64_t places : {1, 2, 4, 5, 8, 13}) {
    support::expect_matches_reference(
        [&](const auto& in) { return resize_side_embed(in[0], places); },
        [&](const auto& in) { return resized_by_hand(in[0], places); }, {table}, at::kDouble);
  }
  EXPECT_TRUE(resize_side_embed(table, 5).is_same(table));
  EXPECT_EQ(resize_side_embed(table.to(at::kBFloat16), 3).scalar_type(), at::kBFloat16);
  EXPECT_THROW(resize_side_embed(table, 0), Error);
}

TEST(PosEmbedTest, FactorizedIsTheSumOfRowAndColumn) {
  const auto rows = support::random({1, 3, 4}, at::kDouble, 1);
  const auto columns = support::random({1, 5, 4}, at::kDouble, 2);
  const auto same = factorized_pos_embed(rows, columns, {3, 5});
  ASSERT_EQ(same.sizes(), (at::IntArrayRef{1, 15, 4}));
  support::expect_same_bits(same[0][1 * 5 + 3], rows[0][1] + columns[0][3], "row 1, column 3");
  const auto other = factorized_pos_embed(rows, columns, {4, 2});
  support::expect_same_bits(other[0][2 * 2 + 1],
                            resize_side_embed(rows, 4)[0][2] + resize_side_embed(columns, 2)[0][1],
                            "row 2, column 1 of another grid");
  EXPECT_THROW(factorized_pos_embed(rows, columns, {4, 2, 2}), Error);
}

}  // namespace
}  // namespace fovea::nn
