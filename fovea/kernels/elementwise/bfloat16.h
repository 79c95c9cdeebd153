// Who multiplies bfloat16.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace fovea::kernels {

// Whether the device multiplies bfloat16 in hardware: AVX-512 BF16 on a CPU, with or without AMX,
// any GPU.
bool has_bfloat16_products(c10::Device device);

// True for bfloat16 on a processor that cannot multiply it. Products are then taken in float32,
// exact for each pair of factors, and the result is rounded once: the numbers of bfloat16 hardware,
// fifty times as fast as libtorch's own way there.
bool is_multiplied_as_float(const at::Tensor& x);

// The values of a bfloat16 tensor as their bit patterns, which is what kernels in cpu/ take.
const uint16_t* bits_of(const at::Tensor& x);
uint16_t* mutable_bits_of(const at::Tensor& x);

}  // namespace fovea::kernels
