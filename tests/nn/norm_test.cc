#include "fovea/nn/norm.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

TEST(NormTest, LayerNormCentresAndScales) {
  Norm norm(6, NormOptions{NormKind::kLayerNorm, 1e-2}, at::kCPU);
  randomize(*norm, 1);
  const auto x = support::random({3, 6}, at::kFloat, 5);
  const auto centred = x - x.mean(-1, true);
  const auto expected =
      centred / (centred.square().mean(-1, true) + 1e-2).sqrt() * norm->weight + norm->bias;
  support::expect_close(norm(x), expected, at::kFloat, "y");
}

TEST(NormTest, RmsNormOnlyScalesAndHasNoBias) {
  Norm norm(6, NormOptions{NormKind::kRmsNorm, 1e-2}, at::kCPU);
  randomize(*norm, 1);
  EXPECT_EQ(norm->named_parameters().keys(), (std::vector<std::string>{"weight"}));
  const auto x = support::random({3, 6}, at::kFloat, 5);
  const auto expected = x / (x.square().mean(-1, true) + 1e-2).sqrt() * norm->weight;
  support::expect_close(norm(x), expected, at::kFloat, "y");
}

TEST(NormTest, WithoutAffineHasNoParametersAndOnlyNormalises) {
  const auto x = support::random({3, 6}, at::kFloat, 5);
  for (const auto kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    Norm norm(6, NormOptions{.kind = kind, .eps = 1e-2, .has_affine = false}, at::kCPU);
    EXPECT_TRUE(norm->named_parameters().is_empty());
    const auto centred = kind == NormKind::kLayerNorm ? x - x.mean(-1, true) : x;
    const auto expected = centred / (centred.square().mean(-1, true) + 1e-2).sqrt();
    support::expect_close(norm(x), expected, at::kFloat, "y");
  }
}

TEST(NormTest, HasAListOfNames) {
  for (const auto& name : norm_names()) EXPECT_NO_THROW(norm_from_name(name));
  EXPECT_THROW(norm_from_name("batch_norm"), ConfigError);
}

}  // namespace
}  // namespace fovea::nn
