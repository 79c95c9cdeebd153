// cuBLASLt as lt_library.h says.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <cstring>

#include "fovea/kernels/cuda/module.h"

namespace fovea::kernels::cuda {

inline constexpr const char* kLtName = "cuBLASLt";

// They are made in place, which takes no memory.
class LtProductDescriptor {
 public:
  cublasStatus_t init(cublasComputeType_t compute, cudaDataType_t scale) {
    return cublasLtMatmulDescInit(&opaque_, compute, scale);
  }
  cublasLtMatmulDesc_t get() { return &opaque_; }

 private:
  cublasLtMatmulDescOpaque_t opaque_;
};

class LtLayout {
 public:
  cublasStatus_t init(cudaDataType_t type, uint64_t rows, uint64_t columns) {
    return cublasLtMatrixLayoutInit(&opaque_, type, rows, columns, static_cast<int64_t>(rows));
  }
  cublasLtMatrixLayout_t get() { return &opaque_; }

 private:
  cublasLtMatrixLayoutOpaque_t opaque_;
};

class LtPreference {
 public:
  cublasStatus_t init() { return cublasLtMatmulPreferenceInit(&opaque_); }
  cublasLtMatmulPreference_t get() { return &opaque_; }

 private:
  cublasLtMatmulPreferenceOpaque_t opaque_;
};

inline size_t version_of(cublasLtHandle_t /*handle*/) { return cublasLtGetVersion(); }

inline AlgorithmBytes bytes_of(const cublasLtMatmulAlgo_t& steps) {
  static_assert(sizeof(steps) == kAlgorithmBytes);
  AlgorithmBytes bytes;
  std::memcpy(bytes.data(), &steps, bytes.size());
  return bytes;
}

inline cublasStatus_t find_steps(const AlgorithmBytes& bytes, cublasLtHandle_t /*handle*/,
                                 cublasLtMatmulAlgo_t& steps) {
  std::memcpy(static_cast<void*>(&steps), bytes.data(), bytes.size());
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace fovea::kernels::cuda
