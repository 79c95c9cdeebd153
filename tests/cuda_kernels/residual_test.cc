#include "fovea/kernels/cuda/residual.h"

#include "fovea/kernels/elementwise/residual.h"
#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using support::random;

struct ResidualInputs {
  at::Tensor x, branch, scale, mask, dy;
};

struct ResidualResults {
  at::Tensor y, dbranch, dscale;
};

class ResidualKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  // Three samples of N rows.
  static ResidualInputs inputs(int64_t N, int64_t D) {
    const auto dtype = GetParam().dtype;
    return {random({3, N, D}, dtype, 1), random({3, N, D}, dtype, 2), random({D}, at::kFloat, 3),
            at::tensor({1.25f, 0.0f, 1.25f}), random({3, N, D}, dtype, 4)};
  }

  static ResidualResults run(const ResidualInputs& in) {
    const kernels::cuda::ResidualShape shape{.rows = 3 * in.x.size(1),
                                             .width = in.x.size(2),
                                             .rows_of_a_sample = in.x.size(1),
                                             .type = GetParam().type};
    const int64_t P = kernels::cuda::parts_of_rows(shape.rows);
    const auto parts = at::full({P, shape.width}, NAN, at::kFloat);
    const ResidualResults r{support::unwritten_like(in.x), support::unwritten_like(in.x), parts};
    kernels::cuda::residual_forward({.x = in.x.const_data_ptr(),
                                     .branch = in.branch.const_data_ptr(),
                                     .scale = support::floats_or_null(in.scale),
                                     .mask = support::floats_or_null(in.mask),
                                     .y = r.y.mutable_data_ptr()},
                                    shape, nullptr);
    kernels::cuda::residual_backward(
        {.dy = in.dy.const_data_ptr(),
         .branch = in.scale.defined() ? in.branch.const_data_ptr() : nullptr,
         .scale = support::floats_or_null(in.scale),
         .mask = support::floats_or_null(in.mask),
         .dbranch = r.dbranch.mutable_data_ptr(),
         .dscale_parts = in.scale.defined() ? parts.mutable_data_ptr<float>() : nullptr},
        shape, nullptr);
    return {r.y, r.dbranch, parts.sum(0)};
  }

  // Against the contract in float64.
  static void compare(const ResidualInputs& in) {
    const auto wide = [](const at::Tensor& x) {
      return x.defined() ? x.to(at::kDouble).set_requires_grad(true) : x;
    };
    const auto branch = wide(in.branch), scale = wide(in.scale);
    const auto y = kernels::add_residual(in.x.to(at::kDouble), branch, scale, in.mask);
    y.backward(in.dy.to(at::kDouble));
    const auto actual = run(in);
    support::expect_close(actual.y, y, GetParam().dtype, "y");
    support::expect_close(actual.dbranch, branch.grad(), GetParam().dtype, "dbranch");
    if (in.scale.defined()) {
      support::expect_close(actual.dscale, scale.grad(), at::kFloat, "dscale");
    }
  }
};

TEST_P(ResidualKernelTest, MatchesTheContract) {
  for (const int64_t D : {1, 40, 197, 768}) {
    for (const int64_t N : {1, 5, 70}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", N, D));
      const auto in = inputs(N, D);
      compare(in);
      compare({in.x, in.branch, {}, in.mask, in.dy});
      compare({in.x, in.branch, in.scale, {}, in.dy});
    }
  }
}

TEST_P(ResidualKernelTest, AlignmentAndScheduleChangeNoBit) {
  const auto in = inputs(70, 64);
  const auto expected = run(in);
  const ResidualInputs moved{in.x, support::shifted(in.branch), in.scale, in.mask, in.dy};
  simt::any_schedule([&] {
    for (const auto& given : {in, moved}) {
      const auto actual = run(given);
      support::expect_same_bits(actual.y, expected.y, "y");
      support::expect_same_bits(actual.dbranch, expected.dbranch, "dbranch");
      support::expect_same_bits(actual.dscale, expected.dscale, "dscale");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ResidualKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

}  // namespace
}  // namespace fovea
