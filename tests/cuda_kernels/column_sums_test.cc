#include "fovea/kernels/cuda/column_sums.h"

#include "tests/cuda_kernels/kernel_cases.h"
#include "tests/cuda_kernels/simt.h"
#include "tests/support/close.h"

namespace fovea {
namespace {

using support::random;

class ColumnSumsKernelTest : public testing::TestWithParam<support::KernelCase> {
 protected:
  at::Tensor sum(const at::Tensor& x) const {
    const int64_t M = x.size(0), N = x.size(1);
    const int64_t P = kernels::cuda::parts_of_rows(M);
    const auto options = at::TensorOptions().dtype(at::kFloat);
    const auto parts = P > 1 ? at::full({P, N}, NAN, options) : at::Tensor();
    const auto sums = at::full({N}, NAN, options);
    kernels::cuda::sum_columns(
        x.const_data_ptr(), {.rows = M, .columns = N, .type = GetParam().type},
        P > 1 ? parts.mutable_data_ptr<float>() : nullptr, sums.mutable_data_ptr<float>(), nullptr);
    return sums;
  }
  at::Tensor values(int64_t M, int64_t N) const { return random({M, N}, GetParam().dtype, 1); }
};

TEST_P(ColumnSumsKernelTest, MatchesFloat64) {
  for (const int64_t M : {1, 3, 64, 65, 129, 1000}) {
    for (const int64_t N : {1, 5, 64, 300, 768}) {
      const auto x = values(M, N);
      // Added up in float32 whatever the dtype of x.
      support::expect_close(sum(x), x.to(at::kDouble).sum(0), at::kFloat,
                            fmt::format("{} rows of {}", M, N));
    }
  }
}

TEST_P(ColumnSumsKernelTest, PartsAreLimitedInNumber) {
  EXPECT_EQ(kernels::cuda::parts_of_rows(1 << 20), 256);
  const auto x = values(20001, 9);
  support::expect_close(sum(x), x.to(at::kDouble).sum(0), at::kFloat, "many rows");
}

TEST_P(ColumnSumsKernelTest, AlignmentAndScheduleChangeNoBit) {
  const auto x = values(200, 64);
  const auto expected = sum(x);
  simt::any_schedule([&] {
    support::expect_same_bits(sum(x), expected, "sums");
    support::expect_same_bits(sum(support::shifted(x)), expected, "sums of what is not aligned");
  });
}

INSTANTIATE_TEST_SUITE_P(Dtypes, ColumnSumsKernelTest, support::kernel_cases(),
                         support::kernel_case_name);

}  // namespace
}  // namespace fovea
