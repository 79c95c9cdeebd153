// What the contracts of all kernels name. No header of CUDA, so that tests without one read them,
// and none of libtorch: nvcc reads each three times.
#pragma once

#include <cstdint>

struct CUstream_st;

namespace fovea::kernels::cuda {

using Stream = CUstream_st*;  // cudaStream_t

// Of what is read and written; kernels compute in float32.
enum class ElementType { kFloat32, kBFloat16, kFloat16 };

}  // namespace fovea::kernels::cuda
