#include "fovea/nn/tokens_to_token.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/im2col.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"

namespace fovea::nn {
namespace {

TEST(SoftSplitTest, IsUnfoldTransposed) {
  const auto images = support::random({2, 3, 13, 9}, at::kFloat, 1);
  for (const auto& split : {SoftSplit{7, 4, 2}, SoftSplit{3, 2, 1}, SoftSplit{2, 3, 0}}) {
    const auto expected = at::im2col(images, {split.kernel, split.kernel}, {1, 1},
                                     {split.padding, split.padding}, {split.stride, split.stride});
    const auto tokens = soft_split(images, split);  // [B, N, C * k * k]
    support::expect_same_bits(tokens, expected.transpose(1, 2).contiguous(), "tokens");
    EXPECT_EQ(tokens.size(1), split.num_windows(13) * split.num_windows(9));
  }
}

TEST(SoftSplitTest, GradientsAreDerivatives) {
  support::expect_gradients_are_derivatives(
      [](const std::vector<at::Tensor>& in) {
        return soft_split(in[0], {3, 2, 1});
      },
      {support::random({1, 2, 5, 4}, at::kDouble, 2)});
}

TEST(SoftSplitTest, AnImageSmallerThanTheWindowHasNone) {
  EXPECT_EQ((SoftSplit{7, 4, 2}.num_windows(2)), 0);
  EXPECT_EQ((SoftSplit{7, 4, 2}.num_windows(3)), 1);
}

TEST(OrthogonalFeaturesTest, RowsAreOrthogonalAndOfOneLength) {
  const auto rows = orthogonal_features(32, 64, "w", 5).to(at::kDouble);
  support::expect_close(rows.mm(rows.t()), at::eye(32, at::kDouble) * 32, at::kFloat, "w w^T");
  EXPECT_FALSE(rows.equal(orthogonal_features(32, 64, "other", 5).to(at::kDouble)));
  EXPECT_THROW(orthogonal_features(5, 4, "w", 5), Error);
}

TEST(TokensToTokenTest, NamesAreUpstreams) {
  TokensToToken performer(TokensToTokenOptions{.dim = 12}, at::kMeta);
  EXPECT_EQ(performer->named_parameters()["attention2.kqv.weight"].sizes(),
            (at::IntArrayRef{192, 576}));
  EXPECT_FALSE(performer->named_parameters()["attention1.w"].requires_grad());
  TokensToToken transformer(
      TokensToTokenOptions{.attention = TokenAttentionKind::kTransformer, .dim = 12}, at::kMeta);
  EXPECT_EQ(transformer->named_parameters()["attention1.attn.qkv.weight"].sizes(),
            (at::IntArrayRef{192, 147}));
  EXPECT_THROW(token_attention_from_name("convolution"), ConfigError);
}

}  // namespace
}  // namespace fovea::nn
