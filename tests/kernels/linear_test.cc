#include "fovea/kernels/linear/linear.h"

#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/norm.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/recompute_cheap.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/dtype_case.h"
#include "tests/support/gradcheck.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using support::random;
using Inputs = std::vector<at::Tensor>;

at::Tensor linear(const Inputs& in) { return kernels::linear(in[0], in[1], in[2]); }
at::Tensor reference_linear(const Inputs& in) { return reference::linear(in[0], in[1], in[2]); }

class LinearTest : public testing::TestWithParam<support::DtypeCase> {
 protected:
  at::Tensor x(const std::vector<int64_t>& shape) const {
    return random(shape, GetParam().dtype, 1);
  }
  at::Tensor weight(int64_t N, int64_t K) const { return random({N, K}, GetParam().parameter, 2); }
  at::Tensor bias(int64_t N) const { return random({N}, GetParam().parameter, 3); }
  void compare(const Inputs& inputs) const {
    support::expect_matches_reference(linear, reference_linear, inputs, GetParam().dtype);
  }
};

TEST_P(LinearTest, MatchesReferenceForTwoToFourDims) {
  compare({x({33, 20}), weight(12, 20), bias(12)});
  compare({x({3, 11, 20}), weight(12, 20), bias(12)});
  compare({x({2, 3, 5, 20}), weight(37, 20), bias(37)});
}

TEST_P(LinearTest, TakesAVector) { compare({x({20}), weight(12, 20), bias(12)}); }

TEST_P(LinearTest, WorksWithoutBias) { compare({x({3, 11, 20}), weight(12, 20), {}}); }

TEST_P(LinearTest, WidthsOfOneAndOddWidths) {
  compare({x({7, 1}), weight(1, 1), bias(1)});
  compare({x({1, 3}), weight(5, 3), bias(5)});
  compare({x({129, 65}), weight(67, 65), bias(67)});
}

TEST_P(LinearTest, TakesNonContiguousInputs) {
  compare({x({20, 33}).t(), weight(20, 12).t(), bias(12)});
  compare({x({5, 9, 3, 20}).select(2, 1), weight(12, 40).slice(1, 0, 40, 2), bias(12)});
}

TEST_P(LinearTest, ZeroRowsGiveZeroGradients) { compare({x({0, 20}), weight(12, 20), bias(12)}); }

TEST_P(LinearTest, GradientsComeOnlyWhereAsked) {
  const auto frozen = weight(12, 20);
  const auto b = bias(12).requires_grad_();
  const auto y = kernels::linear(x({4, 20}), frozen, b);
  y.sum().backward();
  EXPECT_FALSE(frozen.grad().defined());
  ASSERT_TRUE(b.grad().defined());
  EXPECT_EQ(b.grad().sum().item<double>(), 4 * 12);
}

// Shapes of every kind: odd sizes, a single row, few outputs of long sums, long columns, a layer's.
TEST_P(LinearTest, SameBitsForAnyNumberOfThreads) {
  if (GetParam().dtype == at::kDouble) {
    GTEST_SKIP() << "float64 is for tests; BLAS splits its sums by the number of threads";
  }
  struct Shape {
    int64_t M, K, N;
  };
  for (const auto& [M, K, N] :
       {Shape{397, 96, 100}, Shape{1, 700, 10}, Shape{2500, 48, 33}, Shape{64, 1000, 10},
        Shape{1300, 33, 900}, Shape{1601, 384, 200}, Shape{640, 1536, 130}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", M, K, N));
    const Inputs inputs = {x({M, K}), weight(N, K), bias(N)};
    support::expect_same_bits_for_any_threads([&] {
      const auto result = support::gradients(linear, inputs);
      return Inputs{result.output, result.inputs[0], result.inputs[1], result.inputs[2]};
    });
  }
}

// Layers so large that threads have a say in how products are cut.
TEST(LinearTest, LargeProductsHaveTheSameBitsForAnyNumberOfThreads) {
  struct Shape {
    int64_t M, K, N;
  };
  for (const auto& [M, K, N] :
       {Shape{788, 384, 1152}, Shape{1601, 400, 1000}, Shape{600, 768, 3072}, Shape{50, 200, 800},
        Shape{6304, 192, 768}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", M, K, N));
    const Inputs inputs = {random({M, K}, at::kFloat, 1), random({N, K}, at::kFloat, 2),
                           random({N}, at::kFloat, 3)};
    const auto compute = [&] {
      const auto result = support::gradients(linear, inputs);
      return Inputs{result.output, result.inputs[0], result.inputs[1], result.inputs[2]};
    };
    support::expect_same_bits_for_any_threads(compute, {2, 3, 7, 16});
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, LinearTest, support::dtype_cases(), support::dtype_case_name);

TEST(LinearTest, JacobianIsTheDerivative) {
  support::expect_gradients_are_derivatives(
      linear, {random({2, 3, 4}, at::kDouble, 1), random({5, 4}, at::kDouble, 2),
               random({5}, at::kDouble, 3)});
}

const std::vector<kernels::HiddenActivation> kHiddenActivations = {
    {kernels::Activation::kGelu},      {kernels::Activation::kGeluTanh},
    {kernels::Activation::kQuickGelu}, {kernels::Activation::kSilu},
    {kernels::Activation::kRelu},      {.kind = kernels::Activation::kSilu, .is_gated = true}};

// Output and gradients, to the bit.
void expect_same_gradients(const support::Gradients& actual, const support::Gradients& expected) {
  support::expect_same_bits(actual.output, expected.output, "y");
  ASSERT_EQ(actual.inputs.size(), expected.inputs.size());
  for (size_t i = 0; i < actual.inputs.size(); ++i) {
    support::expect_same_bits(actual.inputs[i], expected.inputs[i], fmt::format("input {}", i));
  }
}

// The activation is computed again in the backward pass, by the operations of the forward one.
TEST_P(LinearTest, OfAnActivationIsTheLinearLayerOfItToTheBit) {
  for (const auto& activation : kHiddenActivations) {
    const Inputs inputs = {x({3, 11, activation.is_gated ? 40 : 20}), weight(12, 20), bias(12)};
    const auto fused = support::gradients(
        [&](const Inputs& in) {
          return kernels::linear_of_activation({in[0], {}}, activation, in[1], in[2]);
        },
        inputs);
    const auto plain = support::gradients(
        [&](const Inputs& in) {
          return kernels::linear(kernels::activate(in[0], activation), in[1], in[2]);
        },
        inputs);
    expect_same_gradients(fused, plain);
  }
}

// What is put away of a weight is its memory, as where weights are gathered.
void put_away(const at::Tensor& weight, bool is_away) {
  auto* storage = weight.storage().unsafeGetStorageImpl();
  storage->set_nbytes(is_away ? 0 : static_cast<size_t>(weight.nbytes()));
}

TEST_P(LinearTest, OfANormIsNormedAgainToTheBit) {
  const Inputs inputs = {x({3, 30, 20}), weight(12, 20), bias(12), random({20}, at::kFloat, 5),
                         random({20}, at::kFloat, 6)};
  const auto run = [&](bool is_norms) {
    return support::gradients(
        [&](const Inputs& in) {
          kernels::NormedInput made_of;
          const auto y = kernels::layer_norm(in[0], in[3].to(GetParam().parameter),
                                             in[4].to(GetParam().parameter), 1e-6, &made_of);
          return kernels::linear(is_norms ? kernels::LinearInput(y, made_of) : y, in[1], in[2]);
        },
        inputs);
  };
  expect_same_gradients(run(true), run(false));
}

// Whether a gradient is recorded or not, and whoever takes the activation.
TEST_P(LinearTest, AnActivationThatAProductGivesHasTheBitsOfItsOwnPass) {
  const kernels::HiddenActivation gelu{kernels::Activation::kGelu};
  const auto in = x({3, 31, 20}), w = weight(37, 20), b = bias(37);
  const auto sums = kernels::linear(in, w, b);
  for (const bool is_recorded : {false, true}) {
    const auto hidden = kernels::linear_to_activation(
        in, gelu, w.detach().clone().set_requires_grad(is_recorded), b);
    if (is_recorded) support::expect_same_bits(hidden.before.detach(), sums, "before");
    if (!hidden.after.defined()) continue;
    support::expect_same_bits(hidden.after, kernels::activate(sums, gelu), "after");
  }
}

// Kept or made again: of a norm and of an activation.
TEST_P(LinearTest, WhatIsKeptForBackwardChangesNoBit) {
  const auto parameter = [](const std::vector<int64_t>& shape, uint64_t seed) {
    return random(shape, GetParam().parameter, seed);
  };
  const Inputs inputs = {x({4, 9, 32}),      parameter({64, 32}, 2), parameter({64}, 3),
                         parameter({32}, 4), parameter({32}, 5),     parameter({48, 64}, 6)};
  const auto run = [&](const char* choice) {
    kernels::choose_recompute_cheap(choice);
    auto found = support::gradients(
        [](const Inputs& in) {
          const kernels::HiddenActivation gelu{kernels::Activation::kGelu};
          kernels::NormedInput made_of;
          const auto y = kernels::layer_norm(in[0], in[3], in[4], 1e-6, &made_of);
          const auto hidden = kernels::linear_to_activation({y, made_of}, gelu, in[1], in[2]);
          return kernels::linear_of_activation(hidden, gelu, in[5], {});
        },
        inputs);
    kernels::choose_recompute_cheap("auto");
    return found;
  };
  const auto again = run("on");
  expect_same_gradients(run("off"), again);
  expect_same_gradients(run("auto"), again);
  EXPECT_THROW(kernels::choose_recompute_cheap("sometimes"), ConfigError);
}

// The sums stand for the tensor that they hang on, until somebody writes to it.
TEST(RowSumsTest, HangOnOneTensorUntilItChanges) {
  const auto x = random({5, 3}, at::kFloat, 1), sums = kernels::sum_rows(x);
  EXPECT_FALSE(kernels::hanging_row_sums(x).defined());
  kernels::hang_row_sums(x, sums);
  EXPECT_TRUE(kernels::hanging_row_sums(x).is_same(sums));
  EXPECT_FALSE(kernels::hanging_row_sums(x.view({5, 3})).defined());
  EXPECT_FALSE(kernels::hanging_row_sums(x.detach()).defined());
  x.add_(1);
  EXPECT_FALSE(kernels::hanging_row_sums(x).defined());
}

// A bias's gradient is the sums that hang on what comes back, as they are.
TEST(RowSumsTest, AreTheGradientOfABias) {
  const auto bias = at::zeros({3}).requires_grad_();
  const auto y =
      kernels::linear(random({2, 4, 5}, at::kFloat, 1), random({3, 5}, at::kFloat, 2), bias);
  const auto dy = random({2, 4, 3}, at::kFloat, 3), sums = random({3}, at::kFloat, 4);
  kernels::hang_row_sums(dy, sums);
  support::expect_same_bits(torch::autograd::grad({y}, {bias}, {dy})[0], sums, "bias");
}

TEST(LinearTest, OfANormKeepsNothing) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto x = random({2, 32, 32}, dtype, 1).requires_grad_();
    const auto weight = random({48, 32}, at::kFloat, 2).requires_grad_();
    const auto scale = random({32}, at::kFloat, 3).requires_grad_();
    const auto owners_of = [](const at::Tensor& y) { return y.storage().use_count(); };
    kernels::NormedInput made_of;
    const auto y = kernels::layer_norm(x, scale, {}, 1e-6, &made_of), copy = y.clone();
    ASSERT_TRUE(made_of.rows.has_value());
    const auto alone = owners_of(y), alone_copy = owners_of(copy);
    const auto out = kernels::linear({y, made_of}, weight, {});
    const auto of_copy = kernels::linear(copy, weight, {});
    EXPECT_EQ(owners_of(y), alone);
    EXPECT_GT(owners_of(copy), alone_copy);
    put_away(scale, true);
    const auto kept = kernels::linear({y, made_of}, weight, {});
    put_away(scale, false);
    EXPECT_GT(owners_of(y), alone) << "the weight of the norm is not there";
    const auto gradient = [&](const at::Tensor& z) {
      return torch::autograd::grad({z.sum()}, {weight}, {}, /*retain_graph=*/true)[0];
    };
    support::expect_same_bits(gradient(out), gradient(of_copy), "dW");
    support::expect_same_bits(gradient(kept), gradient(of_copy), "dW of what was kept");
  }
}

// As where the product before has given them: what is there is taken, and its gradient goes to the
// features before the activation.
TEST_P(LinearTest, ActivatedFeaturesAreTaken) {
  const kernels::HiddenActivation gelu_tanh{kernels::Activation::kGeluTanh};
  const Inputs inputs = {x({3, 11, 20}), weight(12, 20), bias(12)};
  const auto run = [&](bool is_given) {
    return support::gradients(
        [&](const Inputs& in) {
          const auto after = is_given ? kernels::activate(in[0], gelu_tanh).detach() : at::Tensor();
          return kernels::linear_of_activation({in[0], after}, gelu_tanh, in[1], in[2]);
        },
        inputs);
  };
  const auto given = run(true), computed = run(false);
  expect_same_gradients(given, computed);
  const at::NoGradGuard no_grad;
  const auto doubled = kernels::linear_of_activation(
      {inputs[0], 2 * kernels::activate(inputs[0], gelu_tanh)}, gelu_tanh, inputs[1], {});
  const auto plain = kernels::linear_of_activation({inputs[0], {}}, gelu_tanh, inputs[1], {});
  support::expect_same_bits(doubled, 2 * plain, "of features twice as large");
}

// Of rows enough for panels.
TEST_P(LinearTest, AResidualIsAddedToTheBit) {
  const Inputs inputs = {x({3, 30, 20}), weight(12, 20), bias(12),
                         random({3, 30, 12}, GetParam().dtype, 4)};
  const kernels::HiddenActivation gelu;
  const auto fused = support::gradients(
      [&](const Inputs& in) {
        return kernels::linear_of_activation({in[0], {}}, gelu, in[1], {}, in[3]) +
               kernels::linear(in[0], in[1], in[2], in[3]);
      },
      inputs);
  const auto plain = support::gradients(
      [&](const Inputs& in) {
        return (in[3] + kernels::linear_of_activation({in[0], {}}, gelu, in[1], {})) +
               (in[3] + kernels::linear(in[0], in[1], in[2]));
      },
      inputs);
  expect_same_gradients(fused, plain);
}

TEST(LinearTest, AResidualOfAnotherShapeIsRefused) {
  const auto weight = at::empty({5, 3});
  EXPECT_THROW(kernels::linear(at::empty({2, 3}), weight, {}, at::empty({3, 5})), Error);
  EXPECT_THROW(kernels::linear(at::empty({2, 3}), weight, {}, at::empty({5})), Error);
  EXPECT_THROW(kernels::linear(at::empty({2, 3}), weight, {}, at::empty({2, 5}, at::kBFloat16)),
               Error);
}

TEST(LinearTest, OfAnActivationGivesGradientsOnlyWhereAsked) {
  const kernels::HiddenActivation gelu;
  const auto x = random({4, 20}, at::kFloat, 1), weight = random({12, 20}, at::kFloat, 2);
  const auto of_x = x.clone().requires_grad_(), of_weight = weight.clone().requires_grad_();
  kernels::linear_of_activation({of_x, {}}, gelu, weight, {}).sum().backward();
  kernels::linear_of_activation({x, {}}, gelu, of_weight, {}).sum().backward();
  EXPECT_TRUE(of_x.grad().defined());
  EXPECT_TRUE(of_weight.grad().defined());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

TEST(LinearTest, MetaTensorsGiveTheShape) {
  const auto meta = at::TensorOptions().device(at::kMeta);
  const auto y = kernels::linear(at::empty({2, 3, 4}, meta), at::empty({5, 4}, meta), {});
  EXPECT_TRUE(y.is_meta());
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{2, 3, 5}));
}

TEST(LinearTest, WrongWidthNamesBoth) {
  try {
    kernels::linear(at::empty({2, 3}), at::empty({5, 4}), {});
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("x of width 3 against a weight of 5 x 4"));
  }
}

}  // namespace
}  // namespace fovea
