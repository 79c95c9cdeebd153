#include "fovea/nn/layer_scale.h"

#include <gtest/gtest.h>

#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

TEST(LayerScaleTest, ScalesEachFeatureAndKeepsTheDtype) {
  LayerScale layer_scale(4, at::kCPU);
  randomize(*layer_scale, 1);
  const auto x = support::random({2, 3, 4}, at::kFloat, 4);
  support::expect_same_bits(layer_scale(x), x * layer_scale->gamma, "y");
  const auto y = layer_scale(x.to(at::kBFloat16));
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  support::expect_close(y, x * layer_scale->gamma, at::kBFloat16, "y in bfloat16");
}

}  // namespace
}  // namespace fovea::nn
