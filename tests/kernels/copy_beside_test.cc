#include "fovea/kernels/linear/copy_beside.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <vector>

#include "fovea/core/error.h"
#include "tests/support/close.h"
#include "tests/support/gpu_test.h"

namespace fovea {
namespace {

using kernels::copy_beside;
using support::random;

TEST(CopyBesideTest, OnACpuItIsTheTensorItself) {
  const auto host = random({3, 4}, at::kFloat, 1);
  EXPECT_TRUE(copy_beside(host, at::kCPU).is_same(host));
  EXPECT_THROW(copy_beside(host.t(), at::kCPU), Error);
}

using CudaCopyBesideTest = support::GpuTest<>;

// Large enough that a copy is not over when the next one is enqueued; work of the current stream
// lies between them, and each tensor's memory is free again while that still runs.
TEST_F(CudaCopyBesideTest, ManyInARowAreThereWhenTheyAreRead) {
  constexpr int64_t kBatches = 40, kElements = int64_t{1} << 24;
  auto sums = at::zeros({kBatches}, at::TensorOptions().dtype(at::kDouble).device(at::kCUDA));
  std::vector<double> expected;
  for (int64_t i = 0; i < kBatches; ++i) {
    const auto host = at::full({kElements}, static_cast<double>(i + 1), at::kFloat);
    const auto there = copy_beside(host, c10::Device(at::kCUDA));
    auto busy = there;
    for (int pass = 0; pass < 4; ++pass) busy = busy.add(busy);  // 2^4
    sums[i].copy_(busy.sum(at::kDouble));
    expected.push_back(16.0 * static_cast<double>((i + 1) * kElements));
  }
  const auto found = sums.to(at::kCPU);
  for (int64_t i = 0; i < kBatches; ++i) {
    EXPECT_EQ(found[i].item<double>(), expected[static_cast<size_t>(i)]) << "batch " << i;
  }
}

TEST_F(CudaCopyBesideTest, BitsOfEveryDtypeArrive) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto host = random({1000, 37}, dtype, 2);
    support::expect_same_bits(copy_beside(host, c10::Device(at::kCUDA)).to(at::kCPU), host, "x");
  }
  const auto bytes = at::full({100003}, 200, at::kByte);
  EXPECT_TRUE(copy_beside(bytes, c10::Device(at::kCUDA)).to(at::kCPU).equal(bytes));
}

}  // namespace
}  // namespace fovea
