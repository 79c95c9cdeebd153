// Products that hipBLASLt has no kernel for, by hipBLAS, which is rocBLAS: on gfx90a float32
// results of bfloat16 matrices, as gradients of weights are.
#pragma once

#include <hipblas/hipblas.h>

#include <limits>

#include "fovea/kernels/cuda/lt_descriptors.h"
#include "fovea/kernels/cuda/torch_gpu.h"

namespace fovea::kernels::cuda {

// As run_lt_call(), of calls without an epilogue that write to new memory or add to d itself.
inline bool run_hipblas_call(const LtCall& call, const LtOperands& operands) {
  const auto fits = [](const LtMatrix& m) {
    return m.rows <= std::numeric_limits<int>::max() &&
           m.columns <= std::numeric_limits<int>::max();
  };
  const bool is_plain =
      call.epilogue == LtEpilogue::kNone && (!call.adds_c || operands.c == operands.d);
  if (!is_plain || !fits(call.a) || !fits(call.b) || !fits(call.d)) return false;
  const auto operation = [](bool is_transposed) {
    return is_transposed ? HIPBLAS_OP_T : HIPBLAS_OP_N;
  };
  const auto size = [](int64_t of) { return static_cast<int>(of); };
  const float one = 1.0f, times_d = call.adds_c ? 1.0f : 0.0f;
  const int64_t inner = call.is_a_transposed ? call.a.rows : call.a.columns;
  const auto handle = at::cuda::getCurrentCUDABlasHandle();
  // libtorch sets the mode whenever it takes the handle.
  check_status(hipblasSetAtomicsMode(handle, HIPBLAS_ATOMICS_NOT_ALLOWED), call, "hipBLAS's mode");
  const auto status =
      hipblasGemmEx(handle, operation(call.is_a_transposed), operation(call.is_b_transposed),
                    size(call.d.rows), size(call.d.columns), size(inner), &one, operands.a,
                    data_type(call.a.type), size(call.a.rows), operands.b, data_type(call.b.type),
                    size(call.b.rows), &times_d, operands.d, data_type(call.d.type),
                    size(call.d.rows), HIPBLAS_COMPUTE_32F, HIPBLAS_GEMM_DEFAULT);
  if (status == HIPBLAS_STATUS_NOT_SUPPORTED) return false;
  check_status(status, call, "hipBLAS's product");
  return true;
}

}  // namespace fovea::kernels::cuda
