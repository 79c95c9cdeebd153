#include "fovea/kernels/cuda/gelu.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/special_erfc.h>

#include <utility>

#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using support::random;

struct GeluInputs {
  at::Tensor x, dy;
};

struct GeluResults {
  at::Tensor y, dx, y_again, dx_sums;
};

class GeluKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  // x from -10 to 10 and beyond: tails and the steep middle.
  static GeluInputs inputs(int64_t M, int64_t F) {
    const auto dtype = GetParam().dtype;
    return {random({M, F}, dtype, 1) * 3, random({M, F}, dtype, 2)};
  }

  static kernels::cuda::GeluShape shape_of(const at::Tensor& x, bool is_tanh) {
    return {x.size(0), x.size(1), GetParam().type, is_tanh};
  }

  static GeluResults run(const GeluInputs& in, bool is_tanh) {
    const auto shape = shape_of(in.x, is_tanh);
    const auto parts = at::full({kernels::cuda::parts_of_rows(shape.rows), shape.columns}, NAN);
    GeluResults r{support::unwritten_like(in.x),
                  support::unwritten_like(in.x),
                  support::unwritten_like(in.x),
                  {}};
    kernels::cuda::gelu_forward(in.x.const_data_ptr(), shape, r.y.mutable_data_ptr(), nullptr);
    kernels::cuda::gelu_backward({.dy = in.dy.const_data_ptr(),
                                  .x = in.x.const_data_ptr(),
                                  .dx = r.dx.mutable_data_ptr(),
                                  .y = r.y_again.mutable_data_ptr(),
                                  .dx_parts = parts.mutable_data_ptr<float>()},
                                 shape, nullptr);
    r.dx_sums = parts.sum(0);
    return r;
  }
};

TEST_P(GeluKernelTest, MatchesFloat64WithGradients) {
  for (const bool is_tanh : {false, true}) {
    for (const auto& [M, F] : {std::pair{1, 1}, {7, 1}, {1, 256}, {130, 40}, {65, 264}, {3, 999}}) {
      SCOPED_TRACE(fmt::format("{} x {}, tanh {}", M, F, is_tanh));
      const auto in = inputs(M, F);
      const auto x = in.x.to(at::kDouble).set_requires_grad(true);
      const auto y = at::gelu(x, is_tanh ? "tanh" : "none");
      y.backward(in.dy.to(at::kDouble));
      const auto actual = run(in, is_tanh);
      support::expect_close(actual.y, y, GetParam().dtype, "y");
      support::expect_close(actual.dx, x.grad(), GetParam().dtype, "dx");
      support::expect_same_bits(actual.y_again, actual.y, "y of the backward pass");
      // Of what is not rounded, but Phi is as exact as the dtype asks.
      const double bound = 1e-4 * (1 + x.grad().abs().sum(0).max().item<double>());
      EXPECT_LT((actual.dx_sums - x.grad().sum(0)).abs().max().item<double>(), bound);
    }
  }
}

TEST_P(GeluKernelTest, WithoutTheOutputTheGradientIsTheSame) {
  const auto in = inputs(10, 100);
  const auto expected = run(in, false);
  const auto dx = support::unwritten_like(in.x);
  kernels::cuda::gelu_backward({.dy = in.dy.const_data_ptr(),
                                .x = in.x.const_data_ptr(),
                                .dx = dx.mutable_data_ptr(),
                                .y = nullptr,
                                .dx_parts = nullptr},
                               shape_of(in.x, false), nullptr);
  support::expect_same_bits(dx, expected.dx, "dx");
}

// Far out, where Phi is a small number of its own and no difference of large ones.
TEST_P(GeluKernelTest, TailsAreThoseOfFloat64) {
  const auto x = at::linspace(-12, -1, 4001).to(GetParam().dtype).view({1, -1});
  const auto wide = x.to(at::kDouble);
  const auto expected = at::special_erfc(wide * -0.70710678118654752) * 0.5 * wide;
  const auto actual = run({x, at::ones_like(x)}, false).y.to(at::kDouble);
  // Half a unit in the last place and the fit's error; what float16 cannot hold is next to nothing.
  const double relative = GetParam().dtype == at::kFloat ? 1e-2 : 5e-3;
  const double absolute = GetParam().dtype == at::kBFloat16 ? 1e-30 : 1e-7;
  EXPECT_TRUE(at::allclose(actual, expected, relative, absolute));
}

TEST_P(GeluKernelTest, AlignmentAndScheduleChangeNoBit) {
  const auto in = inputs(70, 32);
  const auto expected = run(in, false);
  simt::any_schedule([&] {
    for (const auto& x : {in.x, support::shifted(in.x)}) {
      const auto actual = run({x, in.dy}, false);
      support::expect_same_bits(actual.y, expected.y, "y");
      support::expect_same_bits(actual.dx, expected.dx, "dx");
      support::expect_same_bits(actual.dx_sums, expected.dx_sums, "sums of dx");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GeluKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

}  // namespace
}  // namespace fovea
