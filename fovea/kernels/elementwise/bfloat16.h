// Who multiplies bfloat16.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace fovea::kernels {

// Whether linear layers multiply bfloat16 in hardware there: by AVX-512 BF16 on a CPU, with or
// without AMX; on any GPU. Elsewhere products are taken in float32: Note [Kernel paths].
bool has_bfloat16_products(c10::Device device);

// The values of a bfloat16 tensor as their bit patterns, which is what kernels in cpu/ take.
const uint16_t* bits_of(const at::Tensor& x);
uint16_t* mutable_bits_of(const at::Tensor& x);

}  // namespace fovea::kernels
