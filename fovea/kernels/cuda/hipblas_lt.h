// hipBLASLt as lt_library.h says, the names first. It has no mask of reductions to choose
// algorithms by; those that it comes with (MultipleBuffer) write partial sums beside one another
// and add them up in one order.
#pragma once

#include <hipblaslt/hipblaslt.h>

#include <cstdint>
#include <cstring>
#include <hipblaslt/hipblaslt-ext.hpp>
#include <vector>

#include "fovea/kernels/cuda/module.h"

namespace fovea::kernels::cuda {

using cublasComputeType_t = hipblasComputeType_t;
using cublasLtEpilogue_t = hipblasLtEpilogue_t;
using cublasLtHandle_t = hipblasLtHandle_t;
using cublasLtMatmulAlgo_t = hipblasLtMatmulAlgo_t;
using cublasLtMatmulDescAttributes_t = hipblasLtMatmulDescAttributes_t;
using cublasLtMatmulHeuristicResult_t = hipblasLtMatmulHeuristicResult_t;
using cublasLtMatmulPreferenceAttributes_t = hipblasLtMatmulPreferenceAttributes_t;
using cublasStatus_t = hipblasStatus_t;
using cudaDataType_t = hipDataType;

inline constexpr auto CUDA_R_16BF = HIP_R_16BF;
inline constexpr auto CUDA_R_16F = HIP_R_16F;
inline constexpr auto CUDA_R_32F = HIP_R_32F;
inline constexpr auto CUBLAS_COMPUTE_32F = HIPBLAS_COMPUTE_32F;
inline constexpr auto CUBLAS_COMPUTE_32F_FAST_TF32 = HIPBLAS_COMPUTE_32F_FAST_TF32;
inline constexpr auto CUBLAS_OP_N = HIPBLAS_OP_N;
inline constexpr auto CUBLAS_OP_T = HIPBLAS_OP_T;
inline constexpr auto CUBLAS_STATUS_INVALID_VALUE = HIPBLAS_STATUS_INVALID_VALUE;
inline constexpr auto CUBLAS_STATUS_NOT_SUPPORTED = HIPBLAS_STATUS_NOT_SUPPORTED;
inline constexpr auto CUBLAS_STATUS_SUCCESS = HIPBLAS_STATUS_SUCCESS;

inline constexpr auto CUBLASLT_EPILOGUE_BGRADB = HIPBLASLT_EPILOGUE_BGRADB;
inline constexpr auto CUBLASLT_EPILOGUE_BIAS = HIPBLASLT_EPILOGUE_BIAS;
inline constexpr auto CUBLASLT_EPILOGUE_DEFAULT = HIPBLASLT_EPILOGUE_DEFAULT;
inline constexpr auto CUBLASLT_EPILOGUE_DGELU = HIPBLASLT_EPILOGUE_DGELU;
inline constexpr auto CUBLASLT_EPILOGUE_GELU_AUX = HIPBLASLT_EPILOGUE_GELU_AUX;
inline constexpr auto CUBLASLT_EPILOGUE_GELU_AUX_BIAS = HIPBLASLT_EPILOGUE_GELU_AUX_BIAS;

inline constexpr auto CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE;
inline constexpr auto CUBLASLT_MATMUL_DESC_BIAS_POINTER = HIPBLASLT_MATMUL_DESC_BIAS_POINTER;
inline constexpr auto CUBLASLT_MATMUL_DESC_EPILOGUE = HIPBLASLT_MATMUL_DESC_EPILOGUE;
inline constexpr auto CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD = HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD;
inline constexpr auto CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER =
    HIPBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER;
inline constexpr auto CUBLASLT_MATMUL_DESC_TRANSA = HIPBLASLT_MATMUL_DESC_TRANSA;
inline constexpr auto CUBLASLT_MATMUL_DESC_TRANSB = HIPBLASLT_MATMUL_DESC_TRANSB;
inline constexpr auto CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES =
    HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;

inline constexpr auto cublasLtMatmul = &hipblasLtMatmul;
inline constexpr auto cublasLtMatmulAlgoGetHeuristic = &hipblasLtMatmulAlgoGetHeuristic;
inline constexpr auto cublasLtMatmulDescSetAttribute = &hipblasLtMatmulDescSetAttribute;
inline constexpr auto cublasLtMatmulPreferenceSetAttribute = &hipblasLtMatmulPreferenceSetAttribute;

// Whether, and with how much memory, steps are taken for a product.
inline hipblasStatus_t cublasLtMatmulAlgoCheck(hipblasLtHandle_t handle,
                                               hipblasLtMatmulDesc_t product,
                                               hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                               hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                               const hipblasLtMatmulAlgo_t* steps,
                                               hipblasLtMatmulHeuristicResult_t* result) {
  const float one = 1.0f;
  result->algo = *steps;
  return hipblaslt_ext::matmulIsAlgoSupported(handle, product, &one, a, b, &one, c, d, result->algo,
                                              result->workspaceSize);
}

// The texts that there are belong to hipBLAS, a library that nothing else here needs.
inline const char* cublasLtGetStatusString(hipblasStatus_t /*status*/) {
  return "hipblasStatus_t of hipblas-common.h";
}

inline constexpr const char* kLtName = "hipBLASLt";

// What the library makes, and destroys.
template <class Handle, hipblasStatus_t (*kDestroy)(Handle)>
class LtHandle {
 public:
  LtHandle() = default;
  ~LtHandle() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  LtHandle(const LtHandle&) = delete;
  LtHandle& operator=(const LtHandle&) = delete;
  Handle get() { return handle_; }

 protected:
  Handle handle_ = nullptr;
};

class LtProductDescriptor : public LtHandle<hipblasLtMatmulDesc_t, hipblasLtMatmulDescDestroy> {
 public:
  hipblasStatus_t init(hipblasComputeType_t compute, hipDataType scale) {
    return hipblasLtMatmulDescCreate(&handle_, compute, scale);
  }
};

class LtLayout : public LtHandle<hipblasLtMatrixLayout_t, hipblasLtMatrixLayoutDestroy> {
 public:
  hipblasStatus_t init(hipDataType type, uint64_t rows, uint64_t columns) {
    return hipblasLtMatrixLayoutCreate(&handle_, type, rows, columns, static_cast<int64_t>(rows));
  }
};

class LtPreference
    : public LtHandle<hipblasLtMatmulPreference_t, hipblasLtMatmulPreferenceDestroy> {
 public:
  hipblasStatus_t init() { return hipblasLtMatmulPreferenceCreate(&handle_); }
};

inline int version_of(hipblasLtHandle_t handle) {
  int version = 0;
  return hipblasLtGetVersion(handle, &version) == HIPBLAS_STATUS_SUCCESS ? version : 0;
}

// The index of its algorithms is what hipBLASLt says may be kept, for one version of it.
inline AlgorithmBytes bytes_of(hipblasLtMatmulAlgo_t steps) {
  const int32_t index = hipblaslt_ext::getIndexFromAlgo(steps);
  AlgorithmBytes bytes{};
  std::memcpy(bytes.data(), &index, sizeof(index));
  return bytes;
}

inline hipblasStatus_t find_steps(const AlgorithmBytes& bytes, hipblasLtHandle_t handle,
                                  hipblasLtMatmulAlgo_t& steps) {
  int32_t index = 0;
  std::memcpy(&index, bytes.data(), sizeof(index));
  std::vector<int> indices = {index};
  std::vector<hipblasLtMatmulHeuristicResult_t> found;
  const auto status = hipblaslt_ext::getAlgosFromIndex(handle, indices, found);
  if (status != HIPBLAS_STATUS_SUCCESS) return status;
  if (found.empty()) return HIPBLAS_STATUS_NOT_SUPPORTED;
  steps = found.front().algo;
  return status;
}

}  // namespace fovea::kernels::cuda
