#include "fovea/kernels/elementwise/bfloat16.h"

#include "fovea/kernels/kernel_paths.h"

namespace fovea::kernels {

bool has_bfloat16_products(c10::Device device) {
  return device.is_cpu() ? kernel_paths().multiplies_bfloat16() : true;
}

const uint16_t* bits_of(const at::Tensor& x) {
  return reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>());
}

uint16_t* mutable_bits_of(const at::Tensor& x) {
  return reinterpret_cast<uint16_t*>(x.mutable_data_ptr<at::BFloat16>());
}

}  // namespace fovea::kernels
