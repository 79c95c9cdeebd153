// B batch, H heads, N tokens.
#include "fovea/inference/explain.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::inference {
namespace {

at::Tensor attention(int64_t heads, int64_t tokens, uint64_t seed) {
  return at::softmax(3 * support::random({1, heads, tokens, tokens}, at::kFloat, seed), -1);
}

const TokenLayout kClassLayout{.grid = {2, 3}, .num_prefix = 1, .uses_class_token = true};

TEST(AttentionMapsTest, TakesTheRowOfTheClassToken) {
  const auto probabilities = attention(2, 7, 1);
  const auto maps = attention_maps(probabilities, kClassLayout);
  const auto expected = probabilities.select(2, 0).slice(2, 1).reshape({1, 2, 2, 3});
  support::expect_close(maps, expected, at::kFloat, "class row");
}

TEST(AttentionMapsTest, DropsRegistersAndAveragesPatchesWithoutAClassToken) {
  const TokenLayout layout{.grid = {2, 2}, .num_prefix = 3};
  const auto probabilities = attention(2, 7, 2);
  const auto expected =
      probabilities.slice(2, 3).slice(3, 3).mean(2).reshape({1, 2, 2, 2});  // queries, keys
  support::expect_close(attention_maps(probabilities, layout), expected, at::kFloat, "mean");
}

TEST(AttentionMapsTest, WeighsPatchesAsAttentionPoolingDoes) {
  auto pool = at::zeros({1, 2, 1, 4});
  pool[0][0][0][1] = 1;
  pool[0][1][0][3] = 1;
  const TokenLayout layout{.grid = {2, 2}, .num_prefix = 1, .pool_probabilities = pool};
  const auto probabilities = attention(2, 5, 3);
  const auto rows = (probabilities.select(2, 2) + probabilities.select(2, 4)) / 2;  // [1, 2, 5]
  support::expect_close(attention_maps(probabilities, layout),
                        rows.slice(2, 1).reshape({1, 2, 2, 2}), at::kFloat, "pooling");
}

TEST(AttentionMapsTest, RefusesOtherShapes) {
  EXPECT_THROW(attention_maps(attention(1, 8, 1), kClassLayout), Error);
  EXPECT_THROW(attention_maps(at::ones({1, 7, 7}), kClassLayout), Error);
  EXPECT_THROW(attention_maps(attention(1, 6, 1),
                              {.grid = {2, 3}, .num_prefix = 0, .uses_class_token = true}),
               Error);
}

TEST(RolloutTest, OfOneBlockIsHalfItsAttention) {
  const auto probabilities = attention(3, 7, 4);
  const auto expected = (probabilities.mean(1) + at::eye(7)) / 2;  // rows of both sum to 1
  support::expect_close(attention_rollout({probabilities}), expected, at::kFloat, "one block");
}

TEST(RolloutTest, MultipliesLaterBlocksFromTheLeft) {
  const auto first = attention(2, 5, 5), second = attention(2, 5, 6);
  const auto a = (first.mean(1) + at::eye(5)) / 2, b = (second.mean(1) + at::eye(5)) / 2;
  support::expect_close(attention_rollout({first, second}), b.matmul(a), at::kFloat, "two blocks");
}

TEST(RolloutTest, RowsSumToOneAndUniformAttentionStaysUniform) {
  std::vector<at::Tensor> blocks;
  for (uint64_t i = 0; i < 6; ++i) blocks.push_back(attention(2, 7, i));
  const auto rollout = attention_rollout(blocks);
  support::expect_close(rollout.sum(-1), at::ones({1, 7}), at::kFloat, "row sums");
  const auto uniform = at::full({1, 2, 7, 7}, 1.0 / 7);
  const auto map = rollout_map(attention_rollout({uniform, uniform}), kClassLayout);
  support::expect_close(map, at::full({1, 2, 3}, 0.75 / 7), at::kFloat, "uniform");
  EXPECT_THROW(attention_rollout({}), Error);
}

TEST(RolloutTest, FindsTheOnePatchThatIsLookedAt) {
  auto probabilities = at::zeros({1, 1, 7, 7});
  probabilities.select(3, 5).fill_(1);  // every token looks at patch 4: row 1, column 1
  const auto map = rollout_map(attention_rollout({probabilities, probabilities}), kClassLayout)[0];
  EXPECT_EQ(map.argmax().item<int64_t>(), 4);
  EXPECT_EQ(map[0][0].item<float>(), 0);
}

TEST(ColorMapTest, GrowsEvenlyLighter) {
  const auto colors = color_map(at::linspace(0, 1, 256));  // [3, 256]
  EXPECT_GE(colors.min().item<float>(), 0);
  EXPECT_LE(colors.max().item<float>(), 1);
  const auto luminance = 0.2126 * colors[0].pow(2.2) + 0.7152 * colors[1].pow(2.2) +
                         0.0722 * colors[2].pow(2.2);  // [256]
  const auto steps = luminance.slice(0, 1) - luminance.slice(0, 0, 255);
  EXPECT_GE(steps.min().item<float>(), 0);
  EXPECT_LT(luminance[0].item<float>(), 0.02);
  EXPECT_GT(luminance[255].item<float>(), 0.75);
}

TEST(OverlayTest, ColoursWhatIsLookedAt) {
  const auto image = at::full({1, 8, 8}, 0.5);
  auto map = at::zeros({2, 2});
  map[1][0] = 4;
  const auto picture = overlay(image, map);
  EXPECT_EQ(picture.sizes(), at::IntArrayRef({3, 8, 8}));
  const auto most = color_map(at::ones({1})).flatten(), least = color_map(at::zeros({1})).flatten();
  support::expect_close(picture.select(2, 0).select(1, 7), 0.25 * 0.5 + 0.75 * most, at::kFloat,
                        "most");
  support::expect_close(picture.select(2, 7).select(1, 0), 0.7 * 0.5 + 0.3 * least, at::kFloat,
                        "least");
  EXPECT_TRUE(overlay(image, at::ones({2, 2})).isfinite().all().item<bool>());
}

TEST(PictureTest, BecomesInterleavedBytes) {
  auto picture = at::zeros({3, 2, 4});
  picture[1][1][3] = 1.0;
  picture[2][0][0] = 7.0;
  const auto image = to_image(picture);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 4);
  EXPECT_EQ(image.channels, 3);
  ASSERT_EQ(image.pixels.size(), 24u);
  EXPECT_EQ(image.pixels[(1 * 4 + 3) * 3 + 1], 255);
  EXPECT_EQ(image.pixels[2], 255);
  EXPECT_EQ(image.pixels[0], 0);
}

// Where a picture is lightest: row and column.
std::pair<int64_t, int64_t> lightest(const at::Tensor& picture) {
  const auto place = picture.sum(0).argmax().item<int64_t>();
  return {place / picture.size(2), place % picture.size(2)};
}

// Every token looks at one patch, another one in each block and head, and that is where its picture
// is lightest.
TEST(ExplainTest, PicturesAreLightWhereAttentionGoes) {
  const auto looking_at = [](std::vector<int64_t> patches) {  // one a head
    const auto heads = static_cast<int64_t>(patches.size());
    const auto result = at::zeros({1, heads, 7, 7});
    for (int64_t head = 0; head < heads; ++head) {
      result[0][head].select(1, 1 + patches[static_cast<size_t>(head)]).fill_(1);
    }
    return result;
  };
  // Patches of 8 x 8 pixels of the enlarged picture, in two rows of three.
  const auto expect_patch = [](const at::Tensor& picture, int64_t patch, const char* what) {
    SCOPED_TRACE(what);
    const auto [row, column] = lightest(picture);
    EXPECT_EQ(row / 8, patch / 3);
    EXPECT_EQ(column / 8, patch % 3);
  };
  const auto pictures = explain(at::zeros({1, 8, 12}), {looking_at({0, 0}), looking_at({5, 2})},
                                kClassLayout, /*min_side=*/24);
  const auto part = [](const at::Tensor& picture, int64_t row, int64_t column) {
    return picture.narrow(1, row * 18, 16).narrow(2, column * 26, 24);
  };
  expect_patch(part(pictures.blocks, 0, 0), 0, "the first block");
  expect_patch(part(pictures.heads, 0, 0), 5, "the first head of the last block");
  expect_patch(part(pictures.heads, 0, 1), 2, "the second head of the last block");
  EXPECT_EQ(part(pictures.rollout, 0, 0).max().item<float>(), 0) << "the input is black";
  // Over both blocks half of the class token's attention goes to patch 0, an eighth to 2 and to 5.
  expect_patch(part(pictures.rollout, 0, 1), 0, "the rollout");
}

TEST(ExplainTest, DrawsImages) {
  const auto pictures = explain(at::zeros({1, 8, 12}), {attention(3, 7, 1), attention(3, 7, 2)},
                                kClassLayout, /*min_side=*/24);
  EXPECT_EQ(pictures.rollout.sizes(), at::IntArrayRef({3, 16, 24 + 2 + 24}));
  EXPECT_EQ(pictures.blocks.sizes(), at::IntArrayRef({3, 16, 50}));
  EXPECT_EQ(pictures.heads.sizes(), at::IntArrayRef({3, 16 + 2 + 16, 50}));
}

TEST(ExplainTest, DrawsMiddleSlicesOfVolumes) {
  const TokenLayout layout{.grid = {1, 2, 3}, .num_prefix = 0};
  auto pictures = explain(at::zeros({2, 4, 8, 12}), {attention(1, 6, 1)}, layout, 12);
  // Across D: 8 x 12, across H: 4 x 12, across W: 4 x 8.
  EXPECT_EQ(pictures.blocks.sizes(), at::IntArrayRef({3, 8, 12 + 2 + 12 + 2 + 8}));
  EXPECT_THROW(explain(at::zeros({2, 8, 12}), {attention(1, 6, 1)}, layout, 12), Error);
}

}  // namespace
}  // namespace fovea::inference
