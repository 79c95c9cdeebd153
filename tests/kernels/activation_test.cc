#include "fovea/kernels/activation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
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
