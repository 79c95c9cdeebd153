// What kernels are written in. nvcc compiles them for a GPU of NVIDIA's, hipcc for one of AMD's
// (Note [Kernels on AMD]); the tests compile the same files as C++, with CUDA's words taken from an
// emulation (tests/cuda_kernels/simt.h), which their build names in FOVEA_SIMT_EMULATION. So no
// kernel is launched but by launch(), and shared memory comes from shared_memory() alone.
#pragma once

#if defined(__HIPCC__)
#include "fovea/kernels/cuda/hip_words.cuh"
#elif defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#elif defined(FOVEA_SIMT_EMULATION)
#include FOVEA_SIMT_EMULATION
#else
#error "kernels are compiled by nvcc, by hipcc, or by tests that name an emulation"
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fovea/kernels/cuda/launch.h"

#if defined(__HIPCC__) || defined(__CUDACC__)
#define FOVEA_ON_GPU 1
#else
#define FOVEA_ON_GPU 0
#endif

namespace fovea::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

struct LaunchShape {
  dim3 grid, block;
  size_t shared_bytes = 0;
};

#if FOVEA_ON_GPU
#if defined(__HIPCC__)
using BFloat16 = hip_bfloat16;
using Float16 = _Float16;
#else
using BFloat16 = __nv_bfloat16;
using Float16 = __half;
#endif

template <class T>
__device__ T* shared_memory() {
  extern __shared__ __align__(16) unsigned char fovea_shared_bytes[];
  return reinterpret_cast<T*>(fovea_shared_bytes);
}

// What goes wrong is the last error of CUDA's, or of HIP's.
template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchShape& shape, Stream stream,
            const Args&... args) {
  kernel<<<shape.grid, shape.block, shape.shared_bytes, stream>>>(args...);
}
#else
using BFloat16 = simt::BFloat16;
using Float16 = simt::Float16;

template <class T>
T* shared_memory() {
  return static_cast<T*>(simt::shared_memory());
}

template <class... Params, class... Args>
void launch(void (*kernel)(Params...), const LaunchShape& shape, Stream /*stream*/,
            const Args&... args) {
  simt::run(shape.grid, shape.block, shape.shared_bytes, [&] { kernel(args...); });
}
#endif

// a * b rounded, never one operation with a sum that follows.
__device__ __forceinline__ float rounded_product(float a, float b) {
#if defined(__HIPCC__)
#pragma clang fp contract(off)
  return a * b;  // which is all that HIP's __fmul_rn is
#elif FOVEA_ON_GPU
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

// e^x and 1 / x to some 22 bits, in one instruction of the unit for special functions each.
__device__ __forceinline__ float fast_exp(float x) {
#if FOVEA_ON_GPU
  return __expf(x);
#else
  return std::exp(x);
#endif
}
__device__ __forceinline__ float fast_reciprocal(float x) {
#if FOVEA_ON_GPU
  return __fdividef(1.0f, x);
#else
  return 1.0f / x;
#endif
}

// f(element) with a value of the type, for templates to be chosen by.
template <class F>
void with_element_type(ElementType type, const F& f) {
  switch (type) {
    case ElementType::kFloat32:
      return f(float{});
    case ElementType::kBFloat16:
      return f(BFloat16{});
    case ElementType::kFloat16:
      return f(Float16{});
  }
}

// Elements of T that one thread reads at once.
template <class T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

// Null pointers are aligned.
template <class... Pointers>
bool are_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Vector {
  T values[N];
};

// N values side by side as float, read at once. `from` is aligned to as many bytes, up to 16.
template <int N, class T>
__device__ __forceinline__ void load(const T* from, float* to) {
  const auto packed = *reinterpret_cast<const Vector<T, N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = static_cast<float>(packed.values[i]);
}

template <int N, class T>
__device__ __forceinline__ void store(const float* from, T* to) {
  Vector<T, N> packed;
#pragma unroll
  for (int i = 0; i < N; ++i) packed.values[i] = static_cast<T>(from[i]);
#if defined(__CUDACC__)
  // nvcc stores a struct of small members one by one, whatever its alignment.
  if constexpr (sizeof(packed) % sizeof(uint4) == 0) {
    uint4 words[sizeof(packed) / sizeof(uint4)];
    memcpy(words, &packed, sizeof(packed));
#pragma unroll
    for (size_t i = 0; i < sizeof(packed) / sizeof(uint4); ++i) {
      reinterpret_cast<uint4*>(to)[i] = words[i];
    }
    return;
  }
#endif
  *reinterpret_cast<Vector<T, N>*>(to) = packed;
}

// Sums over the lanes of a whole warp; every lane gets them.
template <class T>
__device__ __forceinline__ T sum_over_warp(T value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

// Sums of N values each over the threads that differ in threadIdx.x alone; each of them gets them.
// Where these are more than a warp, threadIdx.y and z are 0, and scratch is shared memory for
// N * kWarp values. blockDim.x is whole warps. All threads of the block call it.
template <int N, class T>
__device__ __forceinline__ void sum_over_x(T (&values)[N], T* scratch) {
#pragma unroll
  for (int n = 0; n < N; ++n) values[n] = sum_over_warp(values[n]);
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  if (warps == 1) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  __syncthreads();  // what an earlier call left there has been read
  if (lane == 0) {
#pragma unroll
    for (int n = 0; n < N; ++n) scratch[n * kWarp + warp] = values[n];
  }
  __syncthreads();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    values[n] = sum_over_warp(lane < warps ? scratch[n * kWarp + lane] : T{0});
  }
}

}  // namespace fovea::kernels::cuda
