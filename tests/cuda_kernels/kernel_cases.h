// What the tests of kernels share: the dtypes, and tensors that do not begin at 16 bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "fovea/kernels/cuda/launch.h"

namespace fovea::support {

struct KernelCase {
  at::ScalarType dtype;
  kernels::cuda::ElementType type;
};

inline auto kernel_cases() {
  using kernels::cuda::ElementType;
  return testing::Values(KernelCase{at::kFloat, ElementType::kFloat32},
                         KernelCase{at::kBFloat16, ElementType::kBFloat16},
                         KernelCase{at::kHalf, ElementType::kFloat16});
}

inline std::string kernel_case_name(const testing::TestParamInfo<KernelCase>& info) {
  return c10::toString(info.param.dtype);
}

// A copy that begins one element behind an aligned address.
inline at::Tensor shifted(const at::Tensor& x) {
  const auto copy = at::empty({x.numel() + 1}, x.options()).narrow(0, 1, x.numel());
  return copy.copy_(x.reshape({-1})).view(x.sizes());
}

// `x` filled with NaN, for results: what is not written shows.
inline at::Tensor unwritten_like(const at::Tensor& x) { return at::empty_like(x).fill_(NAN); }

inline const float* floats_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

}  // namespace fovea::support
