// Words of CUDA's that HIP has otherwise. No type or function of Fovea stands here.
//
// Note [Kernels on AMD]
// A wavefront of CDNA (gfx90a) has 64 lanes; to a kernel it is two warps of 32 that never see each
// other. So a shuffle is told its width, and what a kernel adds is added in the same order as on a
// GPU of NVIDIA's. Both halves come to a shuffle together, or one of them alone: lanes of the other
// are not read.
#pragma once

#include <hip/hip_bfloat16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

// mask: of a warp; HIP takes the lanes that are there.
template <class T>
__device__ __forceinline__ T __shfl_xor_sync(unsigned /*mask*/, T value, int lane_mask) {
  return __shfl_xor(value, lane_mask, 32);
}
