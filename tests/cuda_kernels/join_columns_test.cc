#include "fovea/kernels/cuda/join_columns.h"

#include <ATen/ops/cat.h>

#include <array>

#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using support::random;
using Parts = std::array<at::Tensor, kernels::cuda::kJoined>;

struct JoinResults {
  at::Tensor joined, sums;
};

class JoinColumnsKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  static JoinResults run(const Parts& parts) {
    const int64_t M = parts[0].size(0), N = parts[0].size(1);
    const auto joined = at::full({M, 3 * N}, NAN, parts[0].options());
    const auto sums = at::full({kernels::cuda::parts_of_rows(M), 3 * N}, NAN);
    kernels::cuda::join_columns(
        {.from = {parts[0].const_data_ptr(), parts[1].const_data_ptr(), parts[2].const_data_ptr()},
         .to = joined.mutable_data_ptr(),
         .sum_parts = sums.mutable_data_ptr<float>()},
        {.rows = M, .columns = N, .type = GetParam().type}, nullptr);
    return {joined, sums.sum(0)};
  }
  static Parts parts(int64_t M, int64_t N) {
    const auto dtype = GetParam().dtype;
    return {random({M, N}, dtype, 1), random({M, N}, dtype, 2), random({M, N}, dtype, 3)};
  }
};

TEST_P(JoinColumnsKernelTest, SideBySideWithSumsOverRows) {
  for (const auto& [M, N] : {std::pair{1, 1}, {5, 7}, {129, 64}, {70, 264}, {3, 1030}}) {
    SCOPED_TRACE(fmt::format("{} x {}", M, N));
    const auto in = parts(M, N);
    const auto expected = at::cat({in[0], in[1], in[2]}, 1);
    const auto actual = run(in);
    support::expect_same_bits(actual.joined, expected, "joined");
    support::expect_close(actual.sums, expected.to(at::kDouble).sum(0), at::kFloat, "sums");
  }
}

TEST_P(JoinColumnsKernelTest, AlignmentAndScheduleChangeNoBit) {
  const auto in = parts(80, 32);
  const auto expected = run(in);
  simt::any_schedule([&] {
    for (const auto& second : {in[1], support::shifted(in[1])}) {
      const auto actual = run({in[0], second, in[2]});
      support::expect_same_bits(actual.joined, expected.joined, "joined");
      support::expect_same_bits(actual.sums, expected.sums, "sums");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, JoinColumnsKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

}  // namespace
}  // namespace fovea
