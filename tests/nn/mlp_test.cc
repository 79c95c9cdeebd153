#include "fovea/nn/mlp.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
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

// Whoever multiplies, and with dropout in between.
TEST(MlpTest, AResidualIsAddedToTheOutput) {
  const auto x = support::random({2, 3, 6}, at::kFloat, 4),
             residual = support::random({2, 3, 6}, at::kFloat, 5);
  const auto expect_sum = [&](Mlp mlp, const char* what) {
    const StepScope scope(1, 0, at::tensor({0, 1}, at::kLong));
    support::expect_close(mlp(x, residual), residual + mlp(x), at::kFloat, what);
  };
  for (const auto kind : {MlpKind::kMlp, MlpKind::kSwigluPacked, MlpKind::kSwiglu}) {
    auto dropping = options(kind);
    dropping.drop_rate = 0.5;
    for (const auto& given : {options(kind), dropping}) {
      Mlp mlp(given, at::kCPU);
      randomize(*mlp, 1);
      expect_sum(mlp, "as it is");
      for (const auto& item : mlp->named_modules("", /*include_self=*/false)) {
        if (auto* linear = dynamic_cast<LinearImpl*>(item.value().get())) {
          linear->output_transform = [](const at::Tensor& y) { return 2 * y; };
        }
      }
      expect_sum(mlp, "with products that are pending sums");
    }
  }
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
