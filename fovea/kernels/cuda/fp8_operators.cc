// The operators of ../fp8.h on CUDA; see library.cc.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <tuple>

#include "fovea/kernels/cuda/fp8.h"
#include "fovea/kernels/cuda/operators.h"
#include "fovea/kernels/cuda/runtime.h"
#include "fovea/kernels/linear/fp8.h"

namespace fovea::kernels::cuda::operators {
namespace {

#if FOVEA_HIP
// gfx90a has none, and gfx942's are of other codes (FNUZ) than those of fp8_elements.h.
bool has_fp8_products(const at::Tensor& /*x*/) { return false; }
#else
// From compute capability 8.9 on.
bool has_fp8_products(const at::Tensor& x) {
  int major = 0, minor = 0;
  const int device = x.get_device();
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor >= 89;
}
#endif

// Kernels read 16 bytes at a time.
at::Tensor at_16_bytes(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 ? x : x.clone();
}

// x -> [1] float32.
at::Tensor fp8_largest(const at::Tensor& x) {
  const Launch launch(x);
  const auto options = x.options().dtype(at::kFloat);
  if (x.numel() == 0) return at::zeros({1}, options);
  const auto values = at_16_bytes(x);
  const auto largest = at::empty({1}, options),
             parts = at::empty({fp8_largest_parts(x.numel())}, options);
  cuda::fp8_largest(values.const_data_ptr(), x.numel(), element_type(x),
                    parts.mutable_data_ptr<float>(), largest.mutable_data_ptr<float>(),
                    launch.stream());
  launch.check();
  return largest;
}

uint8_t* bytes_or_null(const at::Tensor& codes) {
  return codes.defined() ? static_cast<uint8_t*>(codes.mutable_data_ptr()) : nullptr;
}

// x: [M, K], M above 0 -> codes [M, K], codes [K, M'], inverse scale [1].
std::tuple<at::Tensor, at::Tensor, at::Tensor> fp8_cast(const at::Tensor& x,
                                                        const at::Tensor& largest, int64_t margin,
                                                        at::ScalarType dtype, bool rows,
                                                        bool columns, const OptionalTensor& seen) {
  const Launch launch(x);
  const int64_t M = x.size(0), K = x.size(1);
  const int64_t padded = (M + kFp8Alignment - 1) / kFp8Alignment * kFp8Alignment;
  const auto values = at_16_bytes(x);
  const auto codes = x.options().dtype(dtype), number = x.options().dtype(at::kFloat);
  const auto by_rows = rows ? at::empty({M, K}, codes) : at::Tensor();
  const auto by_columns = columns ? at::empty({K, padded}, codes) : at::Tensor();
  const auto inverse_scale = at::empty({1}, number);
  const auto parts = seen ? at::empty({fp8_cast_parts(M, K)}, number) : at::Tensor();
  cuda::fp8_cast({.x = values.const_data_ptr(),
                  .largest = largest.const_data_ptr<float>(),
                  .rows = bytes_or_null(by_rows),
                  .columns = bytes_or_null(by_columns),
                  .inverse_scale = inverse_scale.mutable_data_ptr<float>(),
                  .seen = seen ? seen->mutable_data_ptr<float>() : nullptr,
                  .parts = seen ? parts.mutable_data_ptr<float>() : nullptr},
                 {.rows = M,
                  .width = K,
                  .type = element_type(x),
                  .format = dtype == at::kFloat8_e4m3fn ? Fp8Format::kE4M3 : Fp8Format::kE5M2,
                  .margin = static_cast<int>(margin)},
                 launch.stream());
  launch.check();
  return {by_rows, by_columns, inverse_scale};
}

}  // namespace

TORCH_LIBRARY_IMPL(fovea, CUDA, m) {
  m.impl("has_fp8_products", has_fp8_products);
  m.impl("fp8_largest", fp8_largest);
  m.impl("fp8_cast", fp8_cast);
}

}  // namespace fovea::kernels::cuda::operators
