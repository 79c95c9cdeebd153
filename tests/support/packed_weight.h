// Products with a float32 weight that a model keeps packed, and with one that it does not.
#pragma once

#include "fovea/kernels/kernel_paths.h"
#include "tests/support/close.h"

namespace fovea::support {

// Of the one and the other: the same bits but for float32 where the other is MKL's, in another
// order of sums.
inline void expect_same_product(const at::Tensor& actual, const at::Tensor& expected,
                                const std::string& name) {
  const auto path = kernels::kernel_paths().of(kernels::KernelOp::kLinear, at::kFloat).path;
  if (path == kernels::KernelPath::kMkl && expected.scalar_type() == at::kFloat) {
    expect_close(actual, expected, at::kFloat, name);
  } else {
    expect_same_bits(actual, expected, name);
  }
}

}  // namespace fovea::support
