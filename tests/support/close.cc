#include "tests/support/close.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "tests/support/tolerance.h"

namespace fovea::support {

at::Tensor random(const std::vector<int64_t>& shape, at::ScalarType dtype, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble)).to(dtype);
}

void expect_close(const at::Tensor& actual, const at::Tensor& expected, at::ScalarType dtype,
                  const std::string& name) {
  ASSERT_TRUE(actual.defined() && expected.defined()) << name;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
  if (expected.numel() == 0) return;
  const auto tolerance = Tolerance::for_dtype(dtype);
  const auto wanted = expected.detach().to(at::kCPU, at::kDouble);
  const auto error = (actual.detach().to(at::kCPU, at::kDouble) - wanted).abs().max();
  const double largest = wanted.abs().max().item<double>();
  // A NaN fails this comparison too.
  EXPECT_LE(error.item<double>(), tolerance.atol + tolerance.rtol * largest)
      << name << ": largest value " << largest;
}

void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected,
                      const std::string& name) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << name;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
  EXPECT_TRUE(at::equal(actual, expected)) << name;
}

}  // namespace fovea::support
