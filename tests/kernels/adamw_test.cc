#include "fovea/kernels/adamw.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

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

at::Tensor adamw_tiles(const std::vector<int64_t>& rows) {
  return at::tensor(rows, at::kLong).view({-1, kernels::kAdamWTileColumns});
}

TEST(AdamWStepTest, IsTheFormulaInFloat64) {
  const auto start = adamw_buffers(300), b = adamw_buffers(300);
  kernels::adamw_step(b, adamw_tiles({0, 128, 0, 128, 172, 0}), kGroups);
  const auto g = start.grad.to(at::kDouble), m = start.exp_avg.to(at::kDouble) * 0.9 + g * 0.1;
  const auto v = start.exp_avg_sq.to(at::kDouble) * 0.999 + g * g * 0.001;
  const auto param = start.param.to(at::kDouble) * 0.99 - m / (v.sqrt() * 20.0 + 1e-8) * 0.02;
  support::expect_close(b.exp_avg, m, at::kFloat, "exp_avg");
  support::expect_close(b.exp_avg_sq, v, at::kFloat, "exp_avg_sq");
  support::expect_close(b.param, param, at::kFloat, "param");
}

TEST(AdamWStepTest, TilesDecideNothing) {
  const auto whole = adamw_buffers(40000), cut = adamw_buffers(40000);
  kernels::adamw_step(whole, adamw_tiles({0, 40000, 0}), kGroups);
  kernels::adamw_step(cut, adamw_tiles({16, 20000, 0, 0, 16, 0, 20016, 19984, 0}), kGroups);
  support::expect_same_bits(cut.param, whole.param, "param");
  const auto untouched = adamw_buffers(40000), none = adamw_buffers(40000);
  kernels::adamw_step(none, at::zeros({0, 3}, at::kLong), kGroups);
  support::expect_same_bits(none.param, untouched.param, "param without tiles");
}

TEST(AdamWStepTest, AveragesAndCopiesOnTheWay) {
  const auto plain = adamw_buffers(300), b = adamw_buffers(300);
  const auto tiles = adamw_tiles({0, 300, 0});
  kernels::adamw_step(plain, tiles, kGroups);
  const auto average = random({300}, at::kFloat, 5), copy = random({300}, at::kBFloat16, 6);
  const auto expected = average.lerp(plain.param, 0.25);
  kernels::adamw_step(b, tiles, kGroups,
                      {.clip = {}, .average = average, .average_weight = 0.25, .copy = copy});
  support::expect_same_bits(b.param, plain.param, "param");
  support::expect_close(average, expected, at::kFloat, "average");
  support::expect_same_bits(copy, plain.param.to(at::kBFloat16), "copy");
}

TEST(AdamWStepTest, ClipsAndLeavesOutWhatIsNotFinite) {
  const auto tiles = adamw_tiles({0, 300, 0});
  const auto clipped = adamw_buffers(300), scaled = adamw_buffers(300), bad = adamw_buffers(300);
  const auto clip = kernels::clip_state(clipped.grad, 1.0);
  kernels::adamw_step(clipped, tiles, kGroups, {.clip = clip, .average = {}, .copy = {}});
  scaled.grad.mul_(clip[1].to(at::kFloat));
  kernels::adamw_step(scaled, tiles, kGroups);
  support::expect_same_bits(clipped.param, scaled.param, "param");
  bad.grad[7] = NAN;
  kernels::adamw_step(bad, tiles, kGroups,
                      {.clip = kernels::clip_state(bad.grad, 1.0), .average = {}, .copy = {}});
  support::expect_same_bits(bad.param, adamw_buffers(300).param, "param");
  support::expect_same_bits(bad.exp_avg, adamw_buffers(300).exp_avg, "exp_avg");
}

TEST(AdamWStepTest, ClipStateIsNormFactorAndWhetherItIsFinite) {
  const auto expect = [](const at::Tensor& grad, double max_norm, std::vector<double> state) {
    support::expect_close(kernels::clip_state(grad, max_norm), at::tensor(state, at::kDouble),
                          at::kDouble, "state");
  };
  const auto grad = at::full({4}, 2.0f);  // of norm 4
  expect(grad, 0.0, {4, 1, 0});
  expect(grad, 5.0, {4, 1, 0});
  expect(grad, 1.0, {4, 1 / (4 + 1e-6), 0});
  EXPECT_EQ(kernels::clip_state(at::full({4}, INFINITY), 1.0)[2].item<double>(), 1.0);
  EXPECT_THROW(kernels::clip_state(grad, -1.0), Error);
  EXPECT_THROW(kernels::clip_state(grad.to(at::kDouble), 1.0), Error);
}

TEST(AdamWStepTest, WrongBuffersAreRefused) {
  const auto tiles = adamw_tiles({0, 300, 0});
  auto short_grad = adamw_buffers(300), wide = adamw_buffers(300);
  short_grad.grad = short_grad.grad.narrow(0, 0, 299);
  EXPECT_THROW(kernels::adamw_step(short_grad, tiles, kGroups), Error);
  wide.exp_avg = wide.exp_avg.to(at::kDouble);
  EXPECT_THROW(kernels::adamw_step(wide, tiles, kGroups), Error);
  EXPECT_THROW(kernels::adamw_step(adamw_buffers(300), tiles.to(at::kInt), kGroups), Error);
  EXPECT_THROW(kernels::adamw_step(adamw_buffers(300), tiles, {}), Error);
}

}  // namespace
}  // namespace fovea
