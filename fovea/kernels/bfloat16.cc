#include "fovea/kernels/bfloat16.h"

namespace fovea::kernels {

bool has_bfloat16_products(c10::Device device) {
#ifdef __x86_64__
  if (device.is_cpu()) {
    return __builtin_cpu_supports("avx512bf16") != 0 || __builtin_cpu_supports("amx-bf16") != 0;
  }
#endif
  return !device.is_cpu();
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
