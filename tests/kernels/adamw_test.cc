#include "fovea/kernels/elementwise/adamw.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

using support::random;

kernels::AdamWBuffers adamw_buffers(int64_t count) {
  return {random({count}, at::kFloat, 1), random({count}, at::kFloat, 2),
          random({count}, at::kFloat, 3), random({count}, at::kFloat, 4).square()};
}

const std::vector<kernels::AdamWCoefficients> kGroups = {{.decay = 0.99f,
                                                          .beta2 = 0.999f,
                                                          .one_minus_beta1 = 0.1f,
                                                          .one_minus_beta2 = 0.001f,
                                                          .inverse_root = 20.0f,
                                                          .eps = 1e-8f,
                                                          .step_size = 0.02f}};

at::Tensor coefficients(const std::vector<kernels::AdamWCoefficients>& groups = kGroups) {
  return kernels::adamw_coefficients(groups, at::kCPU);
}

at::Tensor adamw_tiles(const std::vector<int64_t>& rows) {
  return at::tensor(rows, at::kLong).view({-1, kernels::kAdamWTileColumns});
}

TEST(AdamWStepTest, IsTheFormulaInFloat64) {
  const auto start = adamw_buffers(300), b = adamw_buffers(300);
  kernels::adamw_step(b, adamw_tiles({0, 128, 0, 128, 172, 0}), coefficients());
  const auto g = start.grad.to(at::kDouble), m = start.exp_avg.to(at::kDouble) * 0.9 + g * 0.1;
  const auto v = start.exp_avg_sq.to(at::kDouble) * 0.999 + g * g * 0.001;
  const auto param = start.param.to(at::kDouble) * 0.99 - m / (v.sqrt() * 20.0 + 1e-8) * 0.02;
  support::expect_close(b.exp_avg, m, at::kFloat, "exp_avg");
  support::expect_close(b.exp_avg_sq, v, at::kFloat, "exp_avg_sq");
  support::expect_close(b.param, param, at::kFloat, "param");
}

TEST(AdamWStepTest, TilesDecideNothing) {
  const auto whole = adamw_buffers(40000), cut = adamw_buffers(40000);
  kernels::adamw_step(whole, adamw_tiles({0, 40000, 0}), coefficients());
  kernels::adamw_step(cut, adamw_tiles({16, 20000, 0, 0, 16, 0, 20016, 19984, 0}), coefficients());
  support::expect_same_bits(cut.param, whole.param, "param");
  const auto untouched = adamw_buffers(40000), none = adamw_buffers(40000);
  kernels::adamw_step(none, at::zeros({0, 3}, at::kLong), coefficients());
  support::expect_same_bits(none.param, untouched.param, "param without tiles");
}

TEST(AdamWStepTest, AveragesAndCopiesOnTheWay) {
  const auto plain = adamw_buffers(3000), b = adamw_buffers(3000);
  const auto tiles = adamw_tiles({0, 2000, 0, 2000, 1000, 0});
  kernels::adamw_step(plain, tiles, coefficients());
  const auto average = random({3000}, at::kFloat, 5), copy = random({3000}, at::kBFloat16, 6);
  const auto expected = average.lerp(plain.param, 0.25);
  auto groups = kGroups;
  for (auto& group : groups) group.average_weight = 0.25f;
  kernels::adamw_step(b, tiles, coefficients(groups),
                      {.clip = {}, .average = average, .copy = copy});
  support::expect_same_bits(b.param, plain.param, "param");
  support::expect_close(average, expected, at::kFloat, "average");
  support::expect_same_bits(copy, plain.param.to(at::kBFloat16), "copy");
}

// Halfway between two numbers, at the ends of the range, and what is no number.
TEST(AdamWStepTest, CopiesAreRoundedAsCastsAre) {
  const auto tiles = adamw_tiles({0, 11, 0});
  auto b = adamw_buffers(11);
  for (auto* moment : {&b.grad, &b.exp_avg}) moment->zero_();
  const auto values =
      at::tensor({1.0f, 1.00390625f, 1.01171875f, -1.00390625f, 3.4e38f, 1e-40f, -0.0f, 0.0f,
                  std::numeric_limits<float>::max(), INFINITY, -INFINITY});
  const auto copy = at::empty({11}, at::kBFloat16);
  b.param = values.clone();
  auto still = kGroups;
  still[0].decay = 1;
  kernels::adamw_step(b, tiles, coefficients(still), {.clip = {}, .average = {}, .copy = copy});
  support::expect_same_bits(copy, values.to(at::kBFloat16), "copy");
  b.param[3] = NAN;
  kernels::adamw_step(b, tiles, coefficients(still), {.clip = {}, .average = {}, .copy = copy});
  EXPECT_TRUE(std::isnan(copy[3].item<float>()));
}

// Scaled, then clipped, each with a rounding of its own: what two passes over them would give.
TEST(AdamWStepTest, GradientsCountTimesScaleAndFactor) {
  const auto tiles = adamw_tiles({0, 3000, 0});
  const auto clipped = adamw_buffers(3000), scaled = adamw_buffers(3000);
  const auto clip = kernels::clip_state(clipped.grad, {.max_norm = 1.0, .grad_scale = 1.0 / 7});
  kernels::adamw_step(clipped, tiles, coefficients(), {.clip = clip, .average = {}, .copy = {}});
  scaled.grad.mul_(1.0 / 7);
  EXPECT_EQ(clip[kernels::kClipNorm].item<double>(),
            kernels::clip_state(scaled.grad, {})[kernels::kClipNorm].item<double>());
  EXPECT_LT(clip[kernels::kClipFactor].item<double>(), 0.5);
  scaled.grad.mul_(clip[kernels::kClipFactor].to(at::kFloat));
  kernels::adamw_step(scaled, tiles, coefficients());
  support::expect_same_bits(clipped.param, scaled.param, "param");
  support::expect_same_bits(clipped.exp_avg, scaled.exp_avg, "exp_avg");
  support::expect_same_bits(clipped.grad, adamw_buffers(3000).grad, "the gradients");
}

TEST(AdamWStepTest, LeavesOutWhatIsNotFinite) {
  const auto tiles = adamw_tiles({0, 300, 0});
  const auto bad = adamw_buffers(300);
  const auto average = random({300}, at::kFloat, 5), copy = random({300}, at::kBFloat16, 6);
  bad.grad[7] = NAN;
  kernels::adamw_step(
      bad, tiles, coefficients(),
      {.clip = kernels::clip_state(bad.grad, {.max_norm = 1.0}), .average = average, .copy = copy});
  support::expect_same_bits(bad.param, adamw_buffers(300).param, "param");
  support::expect_same_bits(bad.exp_avg, adamw_buffers(300).exp_avg, "exp_avg");
  support::expect_same_bits(average, random({300}, at::kFloat, 5), "average");
  support::expect_same_bits(copy, random({300}, at::kBFloat16, 6), "copy");
}

TEST(AdamWStepTest, ClipStateIsNormFactorWhetherItIsFiniteAndScale) {
  const auto expect = [](const at::Tensor& grad, const kernels::ClipOptions& options,
                         std::vector<double> state) {
    support::expect_close(kernels::clip_state(grad, options), at::tensor(state, at::kDouble),
                          at::kDouble, "state");
  };
  const auto grad = at::full({4}, 2.0f);  // of norm 4
  expect(grad, {}, {4, 1, 0, 1});
  expect(grad, {.max_norm = 5.0}, {4, 1, 0, 1});
  expect(grad, {.max_norm = 1.0}, {4, 1 / (4 + 1e-6), 0, 1});
  expect(grad, {.max_norm = 1.0, .grad_scale = 0.5}, {2, 1 / (2 + 1e-6), 0, 0.5});
  EXPECT_THROW(kernels::clip_state(grad, {.max_norm = -1.0}), Error);
  EXPECT_THROW(kernels::clip_state(grad.to(at::kDouble), {}), Error);
  EXPECT_THROW(kernels::clip_state(grad, {.loss = at::full({}, 1.0f)}), Error);
  EXPECT_THROW(kernels::clip_state(grad, {.before = at::zeros({3}, at::kDouble)}), Error);
}

TEST(AdamWStepTest, WhatIsNotFiniteStaysSo) {
  const auto grad = at::full({4}, 2.0f);
  const auto is_bad = [](const at::Tensor& state) {
    return state[kernels::kClipBad].item<double>() == 1;
  };
  const auto loss = [](double value) { return at::full({}, value, at::kDouble); };
  EXPECT_TRUE(is_bad(kernels::clip_state(at::full({4}, INFINITY), {.max_norm = 1.0})));
  EXPECT_FALSE(is_bad(kernels::clip_state(grad, {.loss = loss(-3)})));
  for (const double bad : {double{INFINITY}, -double{INFINITY}, double{NAN}}) {
    const auto first = kernels::clip_state(grad, {.loss = loss(bad)});
    EXPECT_TRUE(is_bad(first)) << bad;
    const auto second = kernels::clip_state(grad, {.loss = loss(1), .before = first});
    EXPECT_TRUE(is_bad(second)) << bad;
    EXPECT_TRUE(is_bad(kernels::clip_state(grad, {.before = second})));
  }
}

TEST(AdamWStepTest, WrongBuffersAreRefused) {
  const auto tiles = adamw_tiles({0, 300, 0});
  auto short_grad = adamw_buffers(300), wide = adamw_buffers(300);
  short_grad.grad = short_grad.grad.narrow(0, 0, 299);
  EXPECT_THROW(kernels::adamw_step(short_grad, tiles, coefficients()), Error);
  wide.exp_avg = wide.exp_avg.to(at::kDouble);
  EXPECT_THROW(kernels::adamw_step(wide, tiles, coefficients()), Error);
  EXPECT_THROW(kernels::adamw_step(adamw_buffers(300), tiles.to(at::kInt), coefficients()), Error);
  EXPECT_THROW(kernels::adamw_step(adamw_buffers(300), tiles, coefficients().narrow(1, 0, 7)),
               Error);
  EXPECT_THROW(coefficients({}), Error);
}

}  // namespace
}  // namespace fovea
