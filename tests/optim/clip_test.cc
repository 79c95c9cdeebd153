#include "fovea/optim/clip.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fovea/optim/sgd.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/threads.h"

namespace fovea::optim {
namespace {

// What clip_gradients makes of the gradient of one parameter.
struct Clipped {
  Clipped(const at::Tensor& gradient, double max_norm, double max_value) {
    const auto param = at::zeros_like(gradient).set_requires_grad(true);
    const auto optimizer = make_sgd({}, {{"a", param}});
    optimizer->flat_grad().narrow(0, 0, gradient.numel()).copy_(gradient);
    norm = clip_gradients(*optimizer, max_norm, max_value);
    grad = param.grad().clone();
  }

  double norm;  // as it was
  at::Tensor grad;
};

TEST(ClipTest, ByNormAsTorch) {
  const auto golden = support::load_golden("clip.safetensors");
  for (const double max_norm : {0.5, 10.0, 1e6}) {
    const auto name = fmt::format("norm_{:g}", max_norm);
    const Clipped clipped(golden.at("grad"), max_norm, 0);
    EXPECT_NEAR(clipped.norm, golden.config.at(name).get<double>(), 1e-5 * clipped.norm);
    support::expect_close(clipped.grad, golden.at(name), at::kFloat, name);
  }
}

TEST(ClipTest, ByValueAsTorch) {
  const auto golden = support::load_golden("clip.safetensors");
  const Clipped clipped(golden.at("grad"), 0, 0.75);
  support::expect_same_bits(clipped.grad, golden.at("value_0.75"), "clipped");
}

// In float32 by the loops of the CPU, in float64 by ATen's operators, as on other devices.
TEST(ClipTest, AdaptivelyAsTimm) {
  const auto golden = support::load_golden("adaptive_clip.safetensors");
  for (const double factor : golden.config.at("factors").get<std::vector<double>>()) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {  // fused, and ATen's operators
      std::vector<ParamSpec> params;
      for (const auto& [name, weight] : golden.group("weight")) {
        auto param = weight.to(dtype, /*non_blocking=*/false, /*copy=*/true);
        param.set_requires_grad(true).mutable_grad() =
            golden.at("grad/" + name).to(dtype, /*non_blocking=*/false, /*copy=*/true);
        params.push_back({.name = name, .param = param});
      }
      clip_gradients_adaptively(params, factor);
      support::NamedTensors clipped;
      for (const auto& spec : params) clipped[spec.name] = spec.param.grad();
      EXPECT_PARITY(clipped, golden.group(fmt::format("clipped_{}", factor)), at::kFloat);
    }
  }
}

TEST(ClipTest, ByValueThenByNorm) {
  const auto grad = support::random({50}, at::kFloat, 3) * 10;
  const Clipped clipped(grad, 1.0, 0.5);
  EXPECT_EQ(clipped.norm, global_norm(grad));
  EXPECT_NEAR(global_norm(clipped.grad), 1.0, 1e-5);
}

TEST(ClipTest, LeavesGradientsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto grad = support::random({100}, at::kFloat, 3);
    grad[17] = bad;
    const Clipped clipped(grad, 0.1, 0.1);
    EXPECT_FALSE(std::isfinite(clipped.norm));
    EXPECT_TRUE(at::allclose(clipped.grad, grad, 0, 0, /*equal_nan=*/true));
  }
}

TEST(ClipTest, SquaresDoNotOverflow) {
  const auto grad = at::full({2}, 3e38f);
  EXPECT_NEAR(global_norm(grad), 3e38 * std::sqrt(2), 1e32);
}

TEST(ClipTest, NormDoesNotDependOnTheNumberOfThreads) {
  const auto grad = support::random({1000003}, at::kFloat, 5);
  support::expect_same_bits_for_any_threads([&] {
    const Clipped clipped(grad, 1.0, 2.0);
    return std::vector<at::Tensor>{clipped.grad, at::full({1}, clipped.norm, at::kDouble)};
  });
}

}  // namespace
}  // namespace fovea::optim
