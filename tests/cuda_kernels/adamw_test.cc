#include "fovea/kernels/cuda/adamw.h"

#include <gtest/gtest.h>

#include "fovea/kernels/elementwise/adamw.h"
#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using kernels::AdamWCoefficients;
using support::random;

constexpr int64_t kCount = 5000;

// Parameters of several lengths, with zeros between them.
const std::vector<int64_t> kTiles = {0,    1,    0,  // begin, count, group
                                     16,   7,    1,  //
                                     32,   1024, 0,  //
                                     1056, 1030, 1,  //
                                     2096, 2000, 1};

std::vector<AdamWCoefficients> groups(float average_weight = 0) {
  return {{.decay = 0.999f,
           .beta2 = 0.999f,
           .one_minus_beta1 = 0.1f,
           .one_minus_beta2 = 0.001f,
           .inverse_root = 20.0f,
           .eps = 1e-8f,
           .step_size = 0.02f,
           .average_weight = average_weight},
          {.decay = 1.0f,
           .beta2 = 0.95f,
           .one_minus_beta1 = 0.2f,
           .one_minus_beta2 = 0.05f,
           .inverse_root = 3.0f,
           .eps = 1e-6f,
           .step_size = 0.3f,
           .average_weight = average_weight}};
}

struct AdamWState {
  at::Tensor param = random({kCount}, at::kFloat, 1), grad = random({kCount}, at::kFloat, 2),
             exp_avg = random({kCount}, at::kFloat, 3),
             exp_avg_sq = random({kCount}, at::kFloat, 4).square(),
             average = random({kCount}, at::kFloat, 5), copy = random({kCount}, at::kBFloat16, 6);
};

struct AdamWRequest {
  double average_weight = 0;  // 0: no average, no copy
  at::Tensor clip = {};
};

void step_by_kernel(AdamWState& s, const AdamWRequest& request) {
  const auto coefficients = groups(static_cast<float>(request.average_weight));
  const bool is_whole = request.average_weight > 0;
  kernels::cuda::adamw_step(
      {.param = s.param.mutable_data_ptr<float>(),
       .grad = s.grad.const_data_ptr<float>(),
       .exp_avg = s.exp_avg.mutable_data_ptr<float>(),
       .exp_avg_sq = s.exp_avg_sq.mutable_data_ptr<float>(),
       .clip = request.clip.defined() ? request.clip.const_data_ptr<double>() : nullptr,
       .average = is_whole ? s.average.mutable_data_ptr<float>() : nullptr,
       .copy = is_whole ? s.copy.mutable_data_ptr() : nullptr},
      reinterpret_cast<const kernels::cuda::AdamWTile*>(kTiles.data()),
      static_cast<int64_t>(kTiles.size() / 3), coefficients.data(), nullptr);
}

// The formulas of update_elements.h in a plain loop.
void step_by_loop(AdamWState& s, float scale, float factor, double average_weight) {
  auto* param = s.param.mutable_data_ptr<float>();
  auto* average = s.average.mutable_data_ptr<float>();
  const auto* grad = s.grad.const_data_ptr<float>();
  for (size_t t = 0; t < kTiles.size(); t += 3) {
    const auto c = groups()[static_cast<size_t>(kTiles[t + 2])];
    for (int64_t i = kTiles[t]; i < kTiles[t] + kTiles[t + 1]; ++i) {
      kernels::adamw_element(c, grad[i] * scale * factor, param[i],
                             s.exp_avg.mutable_data_ptr<float>()[i],
                             s.exp_avg_sq.mutable_data_ptr<float>()[i]);
      if (average_weight == 0) continue;
      average[i] = kernels::lerp_element(average[i], param[i], static_cast<float>(average_weight));
      s.copy.mutable_data_ptr<at::BFloat16>()[i] = param[i];
    }
  }
}

void expect_same_state(const AdamWState& actual, const AdamWState& expected) {
  support::expect_same_bits(actual.param, expected.param, "param");
  support::expect_same_bits(actual.exp_avg, expected.exp_avg, "exp_avg");
  support::expect_same_bits(actual.exp_avg_sq, expected.exp_avg_sq, "exp_avg_sq");
  support::expect_same_bits(actual.average, expected.average, "average");
  support::expect_same_bits(actual.copy, expected.copy, "copy");
}

at::Tensor clip_of(const at::Tensor& grad, const kernels::ClipOptions& clip) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const auto parts = at::full({kernels::cuda::norm_parts(grad.numel())}, NAN, options);
  const auto state = at::full({kernels::kClipElements}, NAN, options);
  const auto pointer = [](const at::Tensor& x) {
    return x.defined() ? x.const_data_ptr<double>() : nullptr;
  };
  kernels::cuda::clip_state(grad.const_data_ptr<float>(), grad.numel(),
                            {.max_norm = clip.max_norm,
                             .grad_scale = clip.grad_scale,
                             .loss = pointer(clip.loss),
                             .before = pointer(clip.before)},
                            parts.mutable_data_ptr<double>(), state.mutable_data_ptr<double>(),
                            nullptr);
  return state;
}

TEST(AdamWKernelTest, HasTheBitsOfTheFormulaInALoop) {
  for (const double average_weight : {0.0, 0.001, 0.7, 1.0}) {
    AdamWState expected;
    step_by_loop(expected, 1, 1, average_weight);
    simt::any_schedule([&] {
      AdamWState actual;
      step_by_kernel(actual, {.average_weight = average_weight});
      expect_same_state(actual, expected);
    });
  }
}

// The CPU's loop may fuse a product and a sum, which the emulation does not.
TEST(AdamWKernelTest, MatchesTheCpusUpdate) {
  AdamWState actual, expected;
  step_by_kernel(actual, {.average_weight = 0.25});
  const auto tiles = at::tensor(kTiles, at::kLong).view({-1, 3});
  kernels::adamw_step({expected.param, expected.grad, expected.exp_avg, expected.exp_avg_sq}, tiles,
                      kernels::adamw_coefficients(groups(0.25f), at::kCPU),
                      {.clip = {}, .average = expected.average, .copy = expected.copy});
  support::expect_close(actual.average, expected.average, at::kFloat, "average");
  support::expect_close(actual.copy, expected.copy, at::kBFloat16, "copy");
  support::expect_close(actual.param, expected.param, at::kFloat, "param");
  support::expect_close(actual.exp_avg, expected.exp_avg, at::kFloat, "exp_avg");
  support::expect_close(actual.exp_avg_sq, expected.exp_avg_sq, at::kFloat, "exp_avg_sq");
}

TEST(AdamWKernelTest, ClipsByTheFactorInMemory) {
  AdamWState actual, expected;
  const auto clip = clip_of(actual.grad, {.max_norm = 3.0, .grad_scale = 0.7});
  const auto factor = static_cast<float>(clip[kernels::kClipFactor].item<double>());
  EXPECT_LT(factor, 0.1);
  step_by_kernel(actual, {.average_weight = 0.1, .clip = clip});
  step_by_loop(expected, 0.7f, factor, 0.1);
  expect_same_state(actual, expected);
}

TEST(AdamWKernelTest, GradientsThatAreNotFiniteChangeNothing) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    AdamWState actual;
    actual.grad[4999] = bad;  // the last element, which is no tile's
    const auto clip = clip_of(actual.grad, {});
    EXPECT_EQ(clip[kernels::kClipBad].item<double>(), 1.0);
    step_by_kernel(actual, {.average_weight = 0.5, .clip = clip});
    expect_same_state(actual, AdamWState());
  }
}

TEST(ClipStateKernelTest, MatchesTheCpusNorm) {
  for (const int64_t count : {1, 3, 1000, 65536, 65537, 200002}) {
    const auto grad = random({count}, at::kFloat, 1) * 3;
    for (const double max_norm : {0.0, 1.0, 1e9}) {
      const kernels::ClipOptions options{.max_norm = max_norm, .grad_scale = 1.0 / 3};
      const auto expected = kernels::clip_state(grad, options);
      simt::any_schedule([&] {
        support::expect_close(clip_of(grad, options), expected, at::kDouble,
                              fmt::format("norm of {}, at most {}", count, max_norm));
      });
    }
  }
}

TEST(ClipStateKernelTest, LargestGradientsAreFinite) {
  const auto state = clip_of(at::full({100}, 3e38f), {.max_norm = 1.0});
  EXPECT_EQ(state[kernels::kClipBad].item<double>(), 0.0);
  EXPECT_NEAR(state[kernels::kClipNorm].item<double>(), 3e39, 1e33);
}

TEST(ClipStateKernelTest, WhatIsNotFiniteStaysSo) {
  const auto grad = random({1000}, at::kFloat, 1);
  for (const double value : {1.0, -double{INFINITY}, double{INFINITY}, double{NAN}}) {
    const auto loss = at::full({}, value, at::kDouble);
    const auto state = clip_of(grad, {.loss = loss});
    support::expect_same_bits(state[kernels::kClipBad],
                              kernels::clip_state(grad, {.loss = loss})[kernels::kClipBad],
                              fmt::format("after a loss of {}", value));
    EXPECT_EQ(clip_of(grad, {.before = state})[kernels::kClipBad].item<double>(),
              std::isfinite(value) ? 0.0 : 1.0);
  }
}

}  // namespace
}  // namespace fovea
