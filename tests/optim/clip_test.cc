#include "fovea/optim/clip.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/threads.h"

namespace fovea::optim {
namespace {

TEST(ClipTest, ByNormAsTorch) {
  const auto golden = support::load_golden("clip.safetensors");
  for (const double max_norm : {0.5, 10.0, 1e6}) {
    const auto name = fmt::format("norm_{:g}", max_norm);
    const auto grad = golden.at("grad").clone();
    const double norm = clip_gradients(grad, max_norm);
    EXPECT_NEAR(norm, golden.config.at(name).get<double>(), 1e-5 * norm);
    support::expect_close(grad, golden.at(name), at::kFloat, name);
  }
}

TEST(ClipTest, ByValueAsTorch) {
  const auto golden = support::load_golden("clip.safetensors");
  const auto grad = golden.at("grad").clone();
  clip_gradients(grad, 0, 0.75);
  support::expect_same_bits(grad, golden.at("value_0.75"), "clipped");
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
  const double before = global_norm(grad);
  EXPECT_EQ(clip_gradients(grad, 1.0, 0.5), before);
  EXPECT_NEAR(global_norm(grad), 1.0, 1e-5);
}

TEST(ClipTest, LeavesGradientsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto grad = support::random({100}, at::kFloat, 3);
    grad[17] = bad;
    const auto before = grad.clone();
    EXPECT_FALSE(std::isfinite(clip_gradients(grad, 0.1, 0.1)));
    EXPECT_TRUE(at::allclose(grad, before, 0, 0, /*equal_nan=*/true));
  }
}

TEST(ClipTest, SquaresDoNotOverflow) {
  const auto grad = at::full({2}, 3e38f);
  EXPECT_NEAR(global_norm(grad), 3e38 * std::sqrt(2), 1e32);
}

TEST(ClipTest, NormDoesNotDependOnTheNumberOfThreads) {
  const auto grad = support::random({1000003}, at::kFloat, 5);
  support::expect_same_bits_for_any_threads([&] {
    const auto clipped = grad.clone();
    const double norm = clip_gradients(clipped, 1.0, 2.0);
    return std::vector<at::Tensor>{clipped, at::full({1}, norm, at::kDouble)};
  });
}

}  // namespace
}  // namespace fovea::optim
