#include "fovea/kernels/cuda/gelu.h"

#include <ATen/ops/gelu.h>

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
  at::Tensor y, dx, y_again;
};

class GeluKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  // x from -10 to 10 and beyond: tails and the steep middle.
  static GeluInputs inputs(int64_t count) {
    const auto dtype = GetParam().dtype;
    return {random({count}, dtype, 1) * 3, random({count}, dtype, 2)};
  }

  static GeluResults run(const GeluInputs& in, bool is_tanh) {
    const kernels::cuda::GeluShape shape{in.x.numel(), GetParam().type, is_tanh};
    const GeluResults r{support::unwritten_like(in.x), support::unwritten_like(in.x),
                        support::unwritten_like(in.x)};
    kernels::cuda::gelu_forward(in.x.const_data_ptr(), shape, r.y.mutable_data_ptr(), nullptr);
    kernels::cuda::gelu_backward({.dy = in.dy.const_data_ptr(),
                                  .x = in.x.const_data_ptr(),
                                  .dx = r.dx.mutable_data_ptr(),
                                  .y = r.y_again.mutable_data_ptr()},
                                 shape, nullptr);
    return r;
  }
};

TEST_P(GeluKernelTest, MatchesFloat64WithGradients) {
  for (const bool is_tanh : {false, true}) {
    for (const int64_t count : {1, 7, 256, 4096, 5000}) {
      SCOPED_TRACE(fmt::format("{} elements, tanh {}", count, is_tanh));
      const auto in = inputs(count);
      const auto x = in.x.to(at::kDouble).set_requires_grad(true);
      const auto y = at::gelu(x, is_tanh ? "tanh" : "none");
      y.backward(in.dy.to(at::kDouble));
      const auto actual = run(in, is_tanh);
      support::expect_close(actual.y, y, GetParam().dtype, "y");
      support::expect_close(actual.dx, x.grad(), GetParam().dtype, "dx");
      support::expect_same_bits(actual.y_again, actual.y, "y of the backward pass");
    }
  }
}

TEST_P(GeluKernelTest, WithoutTheOutputTheGradientIsTheSame) {
  const auto in = inputs(1000);
  const auto expected = run(in, false);
  const auto dx = support::unwritten_like(in.x);
  kernels::cuda::gelu_backward({.dy = in.dy.const_data_ptr(),
                                .x = in.x.const_data_ptr(),
                                .dx = dx.mutable_data_ptr(),
                                .y = nullptr},
                               {in.x.numel(), GetParam().type, false}, nullptr);
  support::expect_same_bits(dx, expected.dx, "dx");
}

TEST_P(GeluKernelTest, AlignmentAndScheduleChangeNoBit) {
  const auto in = inputs(2048);
  const auto expected = run(in, false);
  simt::any_schedule([&] {
    for (const auto& x : {in.x, support::shifted(in.x)}) {
      const auto actual = run({x, in.dy}, false);
      support::expect_same_bits(actual.y, expected.y, "y");
      support::expect_same_bits(actual.dx, expected.dx, "dx");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, GeluKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

}  // namespace
}  // namespace fovea
