#include "fovea/kernels/elementwise/activation.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "fovea/core/error.h"
#include "fovea/kernels/kernel_paths.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/gradcheck.h"

namespace fovea {
namespace {

using kernels::Activation;
using support::random;
using Inputs = std::vector<at::Tensor>;

class ActivationTest : public testing::TestWithParam<std::string> {
 protected:
  Activation kind() const { return kernels::activation_from_name(GetParam()); }
};

TEST_P(ActivationTest, MatchesClosedForm) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    // From the far tails through zero, at a length that does not divide into vectors.
    const auto x = at::cat({at::linspace(-40, 40, 1013), random({500}, at::kFloat, 1)}).to(dtype);
    support::expect_matches_reference(
        [&](const Inputs& in) { return kernels::activate(in[0], kind()); },
        [&](const Inputs& in) { return reference::activate(in[0], kind()); }, {x}, dtype);
  }
}

bool has_own_gelu() {
  using kernels::KernelOp;
  const auto path = kernels::kernel_paths().of(KernelOp::kGelu, at::kBFloat16).path;
  return path != kernels::KernelPath::kReference;
}

// Every bfloat16 that there is against float64: a value and a derivative are right to one rounding,
// far below 0 to little more, until nothing of the value is left.
TEST(ActivationTest, GeluOfEveryBfloat16) {
  const auto bits = at::arange(-32768, 32768, at::kShort).view(at::kBFloat16);
  // Elsewhere it is libtorch's: no digits are left far below 0, and oneDNN overflows near the
  // largest.
  const bool is_ours = has_own_gelu();
  const auto x = bits.masked_select(is_ours ? bits.isfinite() : bits.abs() < 1e30);
  const auto wide = x.to(at::kDouble).set_requires_grad(true);
  // Not by 1 + erf, which has no digits left far below 0.
  const auto expected = wide * 0.5 * at::erfc(-wide / std::numbers::sqrt2);
  const auto derivative = torch::autograd::grad({expected.sum()}, {wide})[0];
  const auto given = x.detach().set_requires_grad(true);
  const auto y = kernels::activate(given, Activation::kGelu);
  const auto dx = torch::autograd::grad({y.sum()}, {given})[0];
  // By how much at most an error is above so many halves of a step of bfloat16.
  const auto excess = [](const at::Tensor& actual, const at::Tensor& wanted, double halves) {
    const auto error = (actual.to(at::kDouble) - wanted).abs();
    return (error - wanted.abs() * (halves / 256)).max().item<double>();
  };
  EXPECT_LT(excess(y, expected.detach(), 1.02), is_ours ? 1e-7 : 1e-6);
  if (is_ours) {
    const auto is_above = x > -5.7;
    EXPECT_LT(excess(y.masked_select(is_above), expected.detach().masked_select(is_above), 1.3),
              1e-36);
  }
  // Where the derivative crosses 0 its two parts, rounded to float32, cancel.
  EXPECT_LT(excess(dx, derivative, 1.02), 1e-6);
}

// What backward makes again of the input that it kept, in one pass or in two: the same bits.
TEST(ActivationTest, AgainGivesTheBitsOfForwardAndBackward) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& name : kernels::activation_names()) {
      SCOPED_TRACE(name);
      const kernels::HiddenActivation activation{.kind = kernels::activation_from_name(name),
                                                 .is_gated = false};
      const auto x = random({71, 517}, dtype, 1).set_requires_grad(true);
      const auto dy = random({517, 71}, dtype, 2).t();
      const auto y = kernels::activate(x, activation);
      const auto dx = torch::autograd::grad({y}, {x}, {dy})[0];
      const auto again = kernels::activate_again(x.detach(), dy, activation);
      support::expect_same_bits(again.y, y.detach(), "y");
      support::expect_same_bits(again.dx, dx, "dx");
    }
  }
}

TEST(ActivationTest, GeluOfInfinityAndNan) {
  if (!has_own_gelu()) GTEST_SKIP() << "skipped: libtorch computes it on this processor";
  constexpr auto kInfinity = std::numeric_limits<float>::infinity();
  const auto x = at::tensor({kInfinity, -kInfinity, std::nanf("")}).to(at::kBFloat16);
  const auto y = kernels::activate(x, Activation::kGelu).to(at::kFloat);
  EXPECT_EQ(y[0].item<float>(), kInfinity);
  EXPECT_TRUE(std::isnan(y[2].item<float>()));
}

TEST_P(ActivationTest, GatedMatchesClosedForm) {
  const auto reference_gated = [&](const Inputs& in) {
    const auto halves = in[0].chunk(2, -1);
    return reference::activate(halves[0], kind()) * halves[1];
  };
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    support::expect_matches_reference(
        [&](const Inputs& in) { return kernels::gated_activate(in[0], kind()); }, reference_gated,
        {random({3, 7, 26}, dtype, 1)}, dtype);
  }
}

TEST_P(ActivationTest, JacobianIsTheDerivative) {
  // relu has no derivative at 0; no value is that near to it.
  const auto x = random({2, 6}, at::kDouble, 4);
  ASSERT_GT(x.abs().min().item<double>(), 1e-3);
  support::expect_gradients_are_derivatives(
      [&](const Inputs& in) { return kernels::activate(in[0], kind()); }, {x});
  support::expect_gradients_are_derivatives(
      [&](const Inputs& in) { return kernels::gated_activate(in[0], kind()); }, {x});
}

TEST_P(ActivationTest, KeepsDtypeAndShape) {
  const auto y = kernels::activate(random({2, 3, 4}, at::kBFloat16, 1), kind());
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 3, 4}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ActivationTest, testing::ValuesIn(kernels::activation_names()),
                         [](const auto& info) { return info.param; });

TEST(ActivationTest, UnknownNameListsTheKnownOnes) {
  try {
    kernels::activation_from_name("swish");
    FAIL() << "expected a ConfigError";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("swish"),
                                             testing::HasSubstr("gelu, gelu_tanh, quick_gelu")));
  }
}

TEST(ActivationTest, GatedRefusesAnOddWidth) {
  EXPECT_THROW(kernels::gated_activate(at::empty({2, 5}), Activation::kSilu), Error);
}

}  // namespace
}  // namespace fovea
