// Comparison of tensors, and random tensors to compare on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::support {

// Standard normal values from `seed`, drawn in float64 and rounded to `dtype`.
at::Tensor random(const std::vector<int64_t>& shape, at::ScalarType dtype, uint64_t seed);

// max |actual - expected| <= atol + rtol * max |expected| with Tolerance::for_dtype(dtype), and
// equal shapes; `dtype` is the one that the computation rounds to. Empty tensors compare equal only
// to empty ones.
void expect_close(const at::Tensor& actual, const at::Tensor& expected, at::ScalarType dtype,
                  const std::string& name);

// Same dtype, shape and bits.
void expect_same_bits(const at::Tensor& actual, const at::Tensor& expected,
                      const std::string& name);

}  // namespace fovea::support
