// Who multiplies bfloat16, and its values as kernels take them.
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

// Those of a tensor of Value: float, or uint16_t, the bits of bfloat16.
template <class Value>
const Value* values_of(const at::Tensor& x) {
  return static_cast<const Value*>(x.const_data_ptr());
}
template <class Value>
Value* mutable_values_of(const at::Tensor& x) {
  return static_cast<Value*>(x.mutable_data_ptr());
}

// Calls body with a value of the type that x, float32 or bfloat16, is made of.
template <class Body>
void in_own_type(const at::Tensor& x, const Body& body) {
  if (x.scalar_type() == at::kFloat) {
    body(float());
  } else {
    body(uint16_t());
  }
}

}  // namespace fovea::kernels
