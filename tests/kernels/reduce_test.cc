#include "fovea/kernels/elementwise/reduce.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/threads.h"

namespace fovea {
namespace {

TEST(ReduceTest, SumOfRowsMatchesFloat64) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const int64_t M : {0, 1, 3, 128, 129, 20000}) {
      const auto x = support::random({M, 37}, dtype, 1);
      const auto sum = kernels::sum_rows(x);
      // bfloat16 rows are summed in float32, so that float32's tolerance holds.
      EXPECT_EQ(sum.scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat);
      support::expect_close(sum, x.to(at::kDouble).sum(0), at::kFloat, std::to_string(M) + " rows");
    }
  }
}

TEST(ReduceTest, SumOfRowsTakesStrides) {
  const auto x = support::random({37, 300}, at::kFloat, 1);
  support::expect_same_bits(kernels::sum_rows(x.t()), kernels::sum_rows(x.t().contiguous()), "sum");
}

TEST(ReduceTest, SumOfRowsHasTheSameBitsForAnyNumberOfThreads) {
  for (const int64_t N : {5, 64, 197}) {
    const auto x = support::random({3000, N}, at::kFloat, 1);
    support::expect_same_bits_for_any_threads(
        [&] { return std::vector<at::Tensor>{kernels::sum_rows(x)}; });
  }
}

TEST(ReduceTest, OtherDimsAreRefused) {
  EXPECT_THROW(kernels::sum_rows(at::empty({2, 3, 4})), Error);
}

}  // namespace
}  // namespace fovea
