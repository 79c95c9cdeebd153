#include "fovea/kernels/elementwise/norm.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/dtype_case.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

constexpr double kEps = 1e-6;

at::Tensor layer_norm(const Inputs& in) { return kernels::layer_norm(in[0], in[1], in[2], kEps); }
at::Tensor reference_layer_norm(const Inputs& in) {
  return reference::layer_norm(in[0], in[1], in[2], kEps);
}
at::Tensor rms_norm(const Inputs& in) { return kernels::rms_norm(in[0], in[1], kEps); }
at::Tensor reference_rms_norm(const Inputs& in) { return reference::rms_norm(in[0], in[1], kEps); }

class NormTest : public testing::TestWithParam<support::DtypeCase> {
 protected:
  at::Tensor x(const std::vector<int64_t>& shape) const {
    return random(shape, GetParam().dtype, 1);
  }
  at::Tensor weight(int64_t D) const { return random({D}, GetParam().parameter, 2); }
  at::Tensor bias(int64_t D) const { return random({D}, GetParam().parameter, 3); }
  void compare(const Inputs& inputs) const {
    support::expect_matches_reference(layer_norm, reference_layer_norm, inputs, GetParam().dtype);
    support::expect_matches_reference(rms_norm, reference_rms_norm, inputs, GetParam().dtype);
  }
};

TEST_P(NormTest, MatchesReferenceForAnyRowLength) {
  for (const int64_t D : {5, 16, 17, 64, 100, 129, 384}) {
    SCOPED_TRACE(D);
    compare({x({2, 35, D}), weight(D), bias(D)});
  }
}

TEST_P(NormTest, MatchesReferenceForManyRows) { compare({x({3, 131, 24}), weight(24), bias(24)}); }

TEST_P(NormTest, ParametersAreOptional) {
  compare({x({5, 24}), {}, {}});
  compare({x({5, 24}), weight(24), {}});
  support::expect_matches_reference(layer_norm, reference_layer_norm, {x({5, 24}), {}, bias(24)},
                                    GetParam().dtype);
}

TEST_P(NormTest, TakesAVectorAndNonContiguousInputs) {
  compare({x({24}), weight(24), bias(24)});
  compare({x({24, 9}).t(), weight(24), bias(24)});
  compare({x({4, 9, 48}).slice(2, 0, 48, 2), weight(48).slice(0, 0, 48, 2), bias(24)});
}

TEST_P(NormTest, ZeroRows) { compare({x({0, 24}), weight(24), bias(24)}); }

TEST_P(NormTest, RowsOfOneValueGiveTheBias) {
  const auto b = bias(24);
  const auto y = kernels::layer_norm(x({5, 1}).expand({5, 24}), weight(24), b, kEps);
  support::expect_close(y, b.expand({5, 24}), GetParam().dtype, "y");
}

TEST_P(NormTest, OutputHasTheDtypeOfX) {
  EXPECT_EQ(layer_norm({x({5, 24}), weight(24), bias(24)}).scalar_type(), GetParam().dtype);
  EXPECT_EQ(rms_norm({x({5, 24}), weight(24)}).scalar_type(), GetParam().dtype);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, NormTest, support::dtype_cases(), support::dtype_case_name);

TEST(NormTest, SameBitsForAnyNumberOfThreads) {
  // Row lengths that do not divide into vectors or threads: sums over rows must not depend on how
  // columns are split.
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t D : {64, 100, 197}) {
      const Inputs inputs = {random({1000, D}, dtype, 1), random({D}, at::kFloat, 2),
                             random({D}, at::kFloat, 3)};
      support::expect_same_bits_for_any_threads([&] {
        const auto result = support::gradients(layer_norm, inputs);
        return Inputs{result.output, result.inputs[0], result.inputs[1], result.inputs[2]};
      });
    }
  }
}

TEST(NormTest, LargeMeanCostsNoPrecision) {
  // Mean 1000, spread 1: one-pass variance in float32 would lose half of the digits.
  const auto x = (random({50, 96}, at::kDouble, 1) + 1000.0).to(at::kFloat);
  const auto y = layer_norm({x, {}, {}});
  const auto expected = reference::layer_norm(x.to(at::kDouble), {}, {}, kEps);
  // Rounding of the mean itself, 1000 * 2^-24, is all that is lost.
  EXPECT_LT((y.to(at::kDouble) - expected).abs().max().item<double>(), 1000 * 0x1p-22);
}

TEST(NormTest, JacobianIsTheDerivative) {
  const Inputs inputs = {random({3, 5}, at::kDouble, 1), random({5}, at::kDouble, 2),
                         random({5}, at::kDouble, 3)};
  support::expect_gradients_are_derivatives(layer_norm, inputs);
  support::expect_gradients_are_derivatives(rms_norm, {inputs[0], inputs[1]});
}

TEST(NormTest, MetaTensorsGiveTheShape) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  const auto x = at::empty({2, 3, 4}, meta), weight = at::empty({4}, meta);
  EXPECT_EQ(kernels::layer_norm(x, weight, weight, kEps).sizes(), x.sizes());
  EXPECT_EQ(kernels::rms_norm(x, weight, kEps).sizes(), x.sizes());
}

TEST(NormTest, WrongLengthNamesBoth) {
  const auto x = at::empty({2, 3}), four = at::empty({4});
  for (const auto& call :
       {+[](const at::Tensor&a, const at::Tensor&b) { kernels::layer_norm(a, b, {}, kEps); },
        +[](const at::Tensor&a, const at::Tensor&b) { kernels::layer_norm(a, {}, b, kEps); },
        +[](const at::Tensor&a, const at::Tensor&b) { kernels::rms_norm(a, b, kEps); }}) {
    try {
      call(x, four);
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  testing::AllOf(testing::HasSubstr("rows of 3"), testing::HasSubstr("of 4")));
    }
  }
}

}  // namespace
}  // namespace fovea
