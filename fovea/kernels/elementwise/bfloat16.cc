#include "fovea/kernels/elementwise/bfloat16.h"

#include "fovea/kernels/cpu/panels.h"

namespace fovea::kernels {

bool has_bfloat16_products(c10::Device device) {
  return device.is_cpu() ? cpu::has_panel_products() : true;
}

bool is_multiplied_as_float(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kBFloat16 && !has_bfloat16_products(x.device());
}

const uint16_t* bits_of(const at::Tensor& x) {
  return reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>());
}

uint16_t* mutable_bits_of(const at::Tensor& x) {
  return reinterpret_cast<uint16_t*>(x.mutable_data_ptr<at::BFloat16>());
}

}  // namespace fovea::kernels
