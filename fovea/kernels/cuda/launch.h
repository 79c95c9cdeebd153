// What the contracts of all kernels name. No header of CUDA, so that tests without one read them,
// and none of libtorch: nvcc reads each three times.
#pragma once

#include <cstdint>

// Whether this is for AMD's GPUs: compiled by hipcc, or against a libtorch for ROCm.
#if defined(__HIPCC__) || defined(USE_ROCM)
#define FOVEA_HIP 1
struct ihipStream_t;
#else
#define FOVEA_HIP 0
struct CUstream_st;
#endif

namespace fovea::kernels::cuda {

#if FOVEA_HIP
using Stream = ihipStream_t*;  // hipStream_t
#else
using Stream = CUstream_st*;  // cudaStream_t
#endif

// Of what is read and written; kernels compute in float32.
enum class ElementType { kFloat32, kBFloat16, kFloat16 };

}  // namespace fovea::kernels::cuda
