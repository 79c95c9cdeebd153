#include "fovea/kernels/linear/fp8.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/fp8_linear.h"
#include "fovea/kernels/linear/linear.h"
#include "tests/reference/ops.h"
#include "tests/support/close.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using kernels::Fp8Format;
using support::random;
using Tensors = std::vector<at::Tensor>;

constexpr std::array kFp8Formats = {Fp8Format::kE4M3, Fp8Format::kE5M2};

double largest_fp8(Fp8Format format) { return format == Fp8Format::kE4M3 ? 448 : 57344; }

at::ScalarType fp8_dtype(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2;
}

uint8_t fp8_code_of(float value, Fp8Format format) {
  return format == Fp8Format::kE4M3 ? kernels::fp8_code<Fp8Format::kE4M3>(value)
                                    : kernels::fp8_code<Fp8Format::kE5M2>(value);
}

float fp8_value_of(uint8_t code, Fp8Format format) {
  return format == Fp8Format::kE4M3 ? kernels::fp8_value<Fp8Format::kE4M3>(code)
                                    : kernels::fp8_value<Fp8Format::kE5M2>(code);
}

// The values of codes, by libtorch, in float64.
at::Tensor decoded(const kernels::Fp8Matrix& matrix) {
  return matrix.rows.to(at::kFloat).to(at::kDouble) * matrix.inverse_scale.to(at::kDouble);
}

// x rounded for its own largest value, or another one, by libtorch's conversion, in float64.
at::Tensor rounded_to_fp8(const at::Tensor& x, Fp8Format format, double largest = 0,
                          int margin = 0) {
  const auto wide = x.to(at::kFloat);
  if (largest == 0) largest = wide.abs().max().item<double>();
  const double scale = std::exp2(std::floor(std::log2(largest_fp8(format) / largest)) - margin);
  const auto codes =
      (wide * scale).clamp(-largest_fp8(format), largest_fp8(format)).to(fp8_dtype(format));
  return codes.to(at::kFloat).to(at::kDouble) / scale;
}

kernels::Fp8Matrix own_cast(const at::Tensor& x, Fp8Format format = Fp8Format::kE4M3) {
  return kernels::fp8_cast(x, kernels::fp8_largest(x), {.format = format});
}

// Every bfloat16, and float32 numbers between them.
TEST(Fp8Test, CodesAreThoseOfLibtorchAndWhatIsBeyondIsTheLargest) {
  const auto bits = at::arange(1 << 16, at::kInt);
  const auto every = (bits * 65536).view(at::kFloat),
             between = (bits * 65536 + 32769).view(at::kFloat);
  for (const auto format : kFp8Formats) {
    for (const auto& numbers : {every, between}) {
      const auto bounded = numbers.clamp(-largest_fp8(format), largest_fp8(format));  // keeps NaN
      const auto expected = bounded.to(fp8_dtype(format)).view(at::kByte);
      const auto* from = numbers.const_data_ptr<float>();
      for (int64_t i = 0; i < numbers.numel(); ++i) {
        const auto code = fp8_code_of(from[i], format);
        if (std::isnan(from[i])) {
          EXPECT_EQ(code, kernels::kFp8NaN);
        } else {
          ASSERT_EQ(code, expected.const_data_ptr<uint8_t>()[i]) << from[i];
        }
      }
    }
  }
}

TEST(Fp8Test, ValuesAreThoseOfLibtorch) {
  const auto codes = at::arange(256, at::kByte);
  for (const auto format : kFp8Formats) {
    const auto expected = codes.view(fp8_dtype(format)).to(at::kFloat);
    for (int code = 0; code < 256; ++code) {
      const float wanted = expected.const_data_ptr<float>()[code];
      const float value = fp8_value_of(static_cast<uint8_t>(code), format);
      if (std::isfinite(wanted)) {
        EXPECT_EQ(value, wanted) << code;
        EXPECT_EQ(std::signbit(value), std::signbit(wanted)) << code;
      } else {
        EXPECT_TRUE(std::isnan(value)) << code;
      }
    }
  }
}

TEST(Fp8Test, ScalesAreTheLargestPowersOfTwoThatFit) {
  for (const auto format : kFp8Formats) {
    for (const float largest : {1e-20f, 0.013f, 1.0f, 1.75f, 1.7500001f, 448.0f, 57344.0f, 3e30f}) {
      const auto scale = std::exp2(kernels::fp8_exponent(largest, format, 0));
      EXPECT_LE(largest * scale, largest_fp8(format)) << largest;
      EXPECT_GT(2 * largest * scale, largest_fp8(format)) << largest;
      EXPECT_EQ(std::exp2(kernels::fp8_exponent(largest, format, 2)), scale / 4);
    }
    for (const float other : {0.0f, INFINITY, NAN}) {
      EXPECT_EQ(kernels::fp8_exponent(other, format, 1), 0);
    }
    // The scale and its inverse are numbers.
    EXPECT_EQ(kernels::fp8_exponent(1e-45f, format, 0), 120);
    EXPECT_GE(kernels::fp8_exponent(3.4e38f, format, 9), -120);
  }
}

TEST(Fp8Test, CastsRoundOnceAndSayWhatTheySaw) {
  for (const auto format : kFp8Formats) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto x = random({37, 48}, dtype, 1) * 0.02;
      const auto matrix = own_cast(x, format);
      EXPECT_EQ(matrix.rows.scalar_type(), fp8_dtype(format));
      EXPECT_TRUE(decoded(matrix).equal(rounded_to_fp8(x, format)));
      // For a smaller value, what is larger becomes the largest number.
      const float small = x.abs().max().item<float>() / 10;
      const auto seen = at::tensor({0.01f});
      const auto clipped =
          kernels::fp8_cast(x, at::full({1}, small), {.format = format, .margin = 1, .seen = seen});
      EXPECT_TRUE(decoded(clipped).equal(rounded_to_fp8(x, format, small, 1)));
      EXPECT_EQ(seen.item<float>(), x.abs().max().item<float>());
      kernels::fp8_cast(x * 0.001, at::full({1}, small), {.format = format, .seen = seen});
      EXPECT_EQ(seen.item<float>(), x.abs().max().item<float>());
    }
  }
}

TEST(Fp8Test, LargestValuesAreExactAndNamesWhatIsNotFinite) {
  const auto x = random({50, 1000}, at::kFloat, 1);
  x[49][999] = -77;
  EXPECT_EQ(kernels::fp8_largest(x).item<float>(), 77);
  EXPECT_EQ(kernels::fp8_largest(x.to(at::kBFloat16)).item<float>(), 77);
  EXPECT_EQ(kernels::fp8_largest(at::zeros({4, 16})).item<float>(), 0);
  EXPECT_EQ(kernels::fp8_largest(at::empty({0, 16})).item<float>(), 0);
  x[3][5] = -INFINITY;
  EXPECT_EQ(kernels::fp8_largest(x).item<float>(), INFINITY);
  x[4][6] = NAN;
  EXPECT_TRUE(std::isnan(kernels::fp8_largest(x).item<float>()));
}

TEST(Fp8Test, ZerosStayZeros) {
  const auto zeros = at::zeros({20, 32}, at::kBFloat16), x = random({20, 32}, at::kBFloat16, 1);
  const auto y = kernels::fp8_product(own_cast(zeros), own_cast(x), {});
  EXPECT_TRUE(y.equal(at::zeros({20, 20}, at::kBFloat16)));
}

TEST(Fp8Test, WhatIsNotFiniteReachesTheRowsThatItIsIn) {
  for (const float value : {INFINITY, -INFINITY, NAN}) {
    const auto x = random({20, 32}, at::kBFloat16, 1), weight = random({48, 32}, at::kFloat, 2);
    x[7][3] = value;
    const auto y = kernels::fp8_linear(x, {}, weight, {});
    EXPECT_EQ(at::isnan(y).sum().item<int64_t>(), 48);
    EXPECT_TRUE(at::isnan(y[7]).all().item<bool>());
  }
}

// What fp8_linear is: [M, K], [N, K], [N], [M, N], all in float64 -> y, dx, dweight, dbias.
Tensors reference_fp8_products(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const at::Tensor& dy) {
  const auto own_dy = rounded_to_fp8(dy, Fp8Format::kE5M2);
  const auto own_x = rounded_to_fp8(x, Fp8Format::kE4M3),
             own_weight = rounded_to_fp8(weight, Fp8Format::kE4M3);
  return {reference::linear(own_x, own_weight, bias.to(at::kDouble)), own_dy.matmul(own_weight),
          own_dy.t().matmul(own_x), dy.to(at::kDouble).sum(0)};
}

Tensors run_fp8(const std::function<at::Tensor(const Tensors&)>& f, const Tensors& inputs,
                const at::Tensor& dy) {
  Tensors leaves;
  for (const auto& x : inputs) leaves.push_back(x.detach().clone().set_requires_grad(true));
  const auto y = f(leaves);
  y.backward(dy);
  Tensors result = {y.detach()};
  for (const auto& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

at::Tensor plain_fp8(const Tensors& in) { return kernels::fp8_linear(in[0], {}, in[1], in[2]); }

TEST(Fp8LinearTest, MatchesFloat64OfRoundedFactors) {
  for (const auto& [M, K, N] : {std::array{33, 64, 48}, {1, 16, 16}, {600, 128, 96}}) {
    for (const auto parameter : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, {}", M, K, N, c10::toString(parameter)));
      const auto x = random({M, K}, at::kBFloat16, 1), dy = random({M, N}, at::kBFloat16, 4) * 1e-3;
      const auto weight = random({N, K}, parameter, 2) * 0.02, bias = random({N}, parameter, 3);
      const auto actual = run_fp8(plain_fp8, {x, weight, bias}, dy);
      const auto expected = reference_fp8_products(x, weight, bias, dy);
      for (size_t i = 0; i < expected.size(); ++i) {
        support::expect_close(actual[i], expected[i], at::kBFloat16, fmt::format("result {}", i));
      }
      EXPECT_EQ(actual[0].scalar_type(), at::kBFloat16);
      EXPECT_EQ(actual[2].scalar_type(), parameter);
    }
  }
}

TEST(Fp8LinearTest, TakesLeadingDimsAndViews) {
  const auto x = random({5, 9, 3, 32}, at::kBFloat16, 1).select(2, 1);  // [5, 9, 32]
  const auto weight = random({48, 64}, at::kFloat, 2).slice(1, 0, 64, 2),
             bias = random({48}, at::kFloat, 3);
  const auto dy = random({5, 48, 9}, at::kBFloat16, 4).transpose(1, 2);
  const auto actual = run_fp8(plain_fp8, {x, weight, bias}, dy);
  const auto flat =
      run_fp8(plain_fp8, {x.reshape({45, 32}), weight.contiguous(), bias}, dy.reshape({45, 48}));
  EXPECT_EQ(actual[0].sizes(), (std::vector<int64_t>{5, 9, 48}));
  for (size_t i = 0; i < flat.size(); ++i) {
    support::expect_same_bits(actual[i].reshape(flat[i].sizes()), flat[i],
                              fmt::format("result {}", i));
  }
}

// The hidden features are made again in the backward pass: the same codes, and the gradient goes on
// through the activation.
TEST(Fp8LinearTest, OfAnActivationIsTheLayerOfItToTheBit) {
  for (const bool is_gated : {false, true}) {
    const kernels::HiddenActivation activation{
        .kind = is_gated ? kernels::Activation::kSilu : kernels::Activation::kGelu,
        .is_gated = is_gated};
    const auto x = random({70, is_gated ? 64 : 32}, at::kBFloat16, 1),
               dy = random({70, 48}, at::kBFloat16, 4);
    const Tensors inputs = {x, random({48, 32}, at::kFloat, 2), random({48}, at::kFloat, 3)};
    const auto fused = run_fp8(
        [&](const Tensors& in) { return kernels::fp8_linear(in[0], activation, in[1], in[2]); },
        inputs, dy);
    const auto plain = run_fp8(
        [&](const Tensors& in) {
          return kernels::fp8_linear(kernels::activate(in[0], activation), {}, in[1], in[2]);
        },
        inputs, dy);
    for (size_t i = 0; i < plain.size(); ++i) {
      support::expect_same_bits(fused[i], plain[i], fmt::format("result {}", i));
    }
  }
}

TEST(Fp8LinearTest, GradientsComeOnlyWhereAsked) {
  const std::optional<kernels::HiddenActivation> gelu = kernels::HiddenActivation();
  for (const auto& activation : {std::optional<kernels::HiddenActivation>(), gelu}) {
    const auto x = random({20, 32}, at::kBFloat16, 1), weight = random({48, 32}, at::kFloat, 2);
    const auto all = run_fp8(
        [&](const Tensors& in) { return kernels::fp8_linear(in[0], activation, in[1], {}); },
        {x, weight}, at::ones({20, 48}, at::kBFloat16));
    const auto of_x = x.clone().requires_grad_(), of_weight = weight.clone().requires_grad_();
    kernels::fp8_linear(of_x, activation, weight, {}).sum().backward();
    kernels::fp8_linear(x, activation, of_weight, {}).sum().backward();
    support::expect_same_bits(of_x.grad(), all[1], "dx");
    support::expect_same_bits(of_weight.grad(), all[2], "dweight");
    EXPECT_FALSE(weight.grad().defined());
  }
}

TEST(Fp8LinearTest, DelayedScalesAreThoseOfThePastAndWhatIsSeenIsKept) {
  const auto x = random({33, 64}, at::kBFloat16, 1), dy = random({33, 48}, at::kBFloat16, 4);
  const auto weight = random({48, 64}, at::kFloat, 2), bias = random({48}, at::kFloat, 3);
  const auto number = [](double value) { return at::full({1}, value, at::kFloat); };
  const kernels::Fp8LinearScaling scaling{.x = {number(1.5), number(0)},
                                          .weight = {number(20), number(100)},
                                          .gradient = {number(3), number(0)}};
  const auto delayed = [&](const Tensors& in) {
    return kernels::fp8_linear(in[0], {}, in[1], in[2], scaling);
  };
  const auto actual = run_fp8(delayed, {x, weight, bias}, dy);
  const auto own_x = rounded_to_fp8(x, Fp8Format::kE4M3, 1.5, 1);  // some of it is larger
  const auto own_weight = rounded_to_fp8(weight, Fp8Format::kE4M3, 20, 1);
  const auto own_dy = rounded_to_fp8(dy, Fp8Format::kE5M2, 3, 1);
  support::expect_close(actual[0], reference::linear(own_x, own_weight, bias.to(at::kDouble)),
                        at::kBFloat16, "y");
  support::expect_close(actual[1], own_dy.matmul(own_weight), at::kBFloat16, "dx");
  support::expect_close(actual[2], own_dy.t().matmul(own_x), at::kBFloat16, "dweight");
  EXPECT_EQ(scaling.x.seen.item<float>(), x.abs().max().item<float>());
  EXPECT_EQ(scaling.weight.seen.item<float>(), 100);
  EXPECT_EQ(scaling.gradient.seen.item<float>(), dy.abs().max().item<float>());
}

TEST(Fp8LinearTest, SameBitsForAnyNumberOfThreads) {
  const auto x = random({700, 384}, at::kBFloat16, 1), dy = random({700, 256}, at::kBFloat16, 4);
  const auto weight = random({256, 384}, at::kFloat, 2), bias = random({256}, at::kFloat, 3);
  support::expect_same_bits_for_any_threads([&] {
    return run_fp8(plain_fp8, {x, weight, bias}, dy);
  });
}

TEST(Fp8LinearTest, NoRowsGiveNoRows) {
  const auto x = at::empty({0, 32}, at::kBFloat16).requires_grad_();
  const auto weight = random({48, 32}, at::kFloat, 2).requires_grad_();
  const auto y = kernels::fp8_linear(x, {}, weight, {});
  y.sum().backward();
  EXPECT_EQ(y.sizes(), (std::vector<int64_t>{0, 48}));
  EXPECT_EQ(weight.grad().abs().sum().item<double>(), 0);
}

TEST(Fp8LinearTest, WhatItDoesNotTakeIsNamed) {
  const auto message = [](const at::Tensor& x, const at::Tensor& weight) -> std::string {
    try {
      kernels::fp8_linear(x, {}, weight, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const auto x = random({4, 32}, at::kBFloat16, 1), weight = random({48, 32}, at::kFloat, 2);
  EXPECT_EQ(message(x, weight), "");
  EXPECT_THAT(message(x.to(at::kFloat), weight), testing::HasSubstr("expected bfloat16"));
  EXPECT_THAT(message(x, weight.narrow(0, 0, 40)), testing::HasSubstr("a weight of [40, 32]"));
  EXPECT_THAT(message(x.narrow(1, 0, 16), weight),
              testing::HasSubstr("width 16 against a weight of [48, 32]"));
}

}  // namespace
}  // namespace fovea
