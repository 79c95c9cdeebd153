// What the path of this process promises of the bits of float32 products.
#pragma once

#include "fovea/kernels/kernel_paths.h"

namespace fovea::support {

// Whether a row has the same bits whatever other rows there are: not of a library, which may sum
// another way where they are fewer.
inline bool rows_have_own_bits() {
  const auto path = kernels::kernel_paths().of(kernels::KernelOp::kLinear, at::kFloat).path;
  return path == kernels::KernelPath::kAvx2 || path == kernels::KernelPath::kAvx512;
}

// Whether sums are split by the number of threads: libtorch's own are.
inline bool threads_split_sums() {
  const auto path = kernels::kernel_paths().of(kernels::KernelOp::kLinear, at::kFloat).path;
  return path == kernels::KernelPath::kReference;
}

}  // namespace fovea::support
