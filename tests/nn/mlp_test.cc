#include "fovea/nn/mlp.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/nn/layers_common.h"

namespace fovea::nn {
namespace {

MlpOptions options(MlpKind kind) {
  return {.kind = kind, .dim = 6, .hidden_dim = 10, .activation = kernels::Activation::kSilu};
}

at::Tensor apply(MlpImpl& mlp, const std::string& layer, const at::Tensor& x) {
  const auto parameters = mlp.named_parameters();
  return at::linear(x, parameters[layer + ".weight"], parameters[layer + ".bias"]);
}

TEST(MlpTest, PlainIsTwoLayersAndAnActivation) {
  Mlp mlp(options(MlpKind::kMlp), at::kCPU);
  randomize(*mlp, 1);
  const auto x = support::random({2, 3, 6}, at::kFloat, 4);
  const auto expected = apply(*mlp, "fc2", at::silu(apply(*mlp, "fc1", x)));
  support::expect_close(mlp(x), expected, at::kFloat, "y");
}

TEST(MlpTest, PackedHoldsTheGateFirst) {
  Mlp mlp(options(MlpKind::kSwigluPacked), at::kCPU);
  randomize(*mlp, 1);
  const auto x = support::random({2, 3, 6}, at::kFloat, 4);
  const auto halves = apply(*mlp, "fc1", x).chunk(2, -1);
  const auto expected = apply(*mlp, "fc2", at::silu(halves[0]) * halves[1]);
  support::expect_close(mlp(x), expected, at::kFloat, "y");
}

TEST(MlpTest, SplitHasALayerForTheGate) {
  Mlp mlp(options(MlpKind::kSwiglu), at::kCPU);
  randomize(*mlp, 1);
  const auto x = support::random({2, 3, 6}, at::kFloat, 4);
  const auto gated = at::silu(apply(*mlp, "fc1_g", x)) * apply(*mlp, "fc1_x", x);
  support::expect_close(mlp(x), apply(*mlp, "fc2", gated), at::kFloat, "y");
}

TEST(MlpTest, RefusesAnOddPackedWidth) {
  auto odd = options(MlpKind::kSwigluPacked);
  odd.hidden_dim = 9;
  EXPECT_THROW(Mlp(odd, at::kCPU), Error);
  for (const auto& name : mlp_names()) EXPECT_NO_THROW(mlp_from_name(name));
  EXPECT_THROW(mlp_from_name("glu"), ConfigError);
}

}  // namespace
}  // namespace fovea::nn
