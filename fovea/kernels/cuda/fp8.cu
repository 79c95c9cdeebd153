// The kernels of fp8.h. Largest values are compared as bits without the sign, which order as the
// values do, with NaN above all.
#include <algorithm>

#include "fovea/kernels/cuda/fp8.h"
#include "fovea/kernels/cuda/simt.cuh"

#if defined(__CUDACC__) && !defined(__HIPCC__)
#define FOVEA_CONVERTS_FP8 1  // in one instruction
#include <cuda_fp8.h>
#endif

namespace fovea::kernels::cuda {
namespace {

constexpr int kLargestThreads = 512;
constexpr int64_t kMostParts = 1024;
constexpr int kGroup = 16;          // elements of one thread, side by side
constexpr int kTile = 64;           // rows and columns of a block
constexpr int kStride = kTile + 4;  // bytes of a row of codes in shared memory, against conflicts
constexpr int kGroupsOfTile = kTile / kGroup;
constexpr int kCastThreads = kTile * kGroupsOfTile;

// Two codes, that of `first` in the low byte.
template <Fp8Format kFormat>
__device__ __forceinline__ uint16_t two_codes(float first, float second) {
#if defined(FOVEA_CONVERTS_FP8)
  constexpr auto kKind = kFormat == Fp8Format::kE4M3 ? __NV_E4M3 : __NV_E5M2;
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, kKind);
#else
  return static_cast<uint16_t>(fp8_code<kFormat>(first) |
                               static_cast<unsigned>(fp8_code<kFormat>(second)) << 8);
#endif
}

__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

// The largest over the threads of a block, whole warps along x, which thread 0 gets. scratch:
// shared memory for kWarp numbers. All threads of the block call it.
__device__ __forceinline__ uint32_t largest_of_block(uint32_t bits, uint32_t* scratch) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    bits = larger(bits, __shfl_xor_sync(kAllLanes, bits, distance));
  }
  if (lane == 0) scratch[warp] = bits;
  __syncthreads();
  bits = lane < warps ? scratch[lane] : 0;
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    bits = larger(bits, __shfl_xor_sync(kAllLanes, bits, distance));
  }
  return bits;
}

// parts[blockIdx.x] = the largest of every gridDim.x-th stripe of the elements.
template <class T>
__global__ void __launch_bounds__(kLargestThreads)
    largest_kernel(const T* x, int64_t count, float* parts) {
  constexpr int kWidth = kVector<T>;
  const int64_t whole = count / kWidth * kWidth;
  const int64_t thread = int64_t{blockIdx.x} * kLargestThreads + threadIdx.x;
  uint32_t bits = 0;
  for (int64_t i = thread * kWidth; i < whole; i += int64_t{gridDim.x} * kLargestThreads * kWidth) {
    float values[kWidth];
    load<kWidth>(x + i, values);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) bits = larger(bits, magnitude_bits(values[j]));
  }
  if (whole + thread < count) {
    bits = larger(bits, magnitude_bits(static_cast<float>(x[whole + thread])));
  }
  bits = largest_of_block(bits, shared_memory<uint32_t>());
  if (threadIdx.x == 0) parts[blockIdx.x] = float_of_bits(bits);
}

// One block: the largest of the parts, and of `to` itself where that is kept.
__global__ void __launch_bounds__(kLargestThreads)
    largest_of_parts_kernel(const float* parts, int64_t count, bool keeps, float* to) {
  uint32_t bits = 0;
  for (int64_t i = threadIdx.x; i < count; i += kLargestThreads) {
    bits = larger(bits, magnitude_bits(parts[i]));
  }
  bits = largest_of_block(bits, shared_memory<uint32_t>());
  if (threadIdx.x != 0) return;
  *to = float_of_bits(keeps ? larger(bits, magnitude_bits(*to)) : bits);
}

void largest_of_parts(const float* parts, int64_t count, bool keeps, float* to, Stream stream) {
  launch(largest_of_parts_kernel,
         {.grid = 1, .block = kLargestThreads, .shared_bytes = kWarp * sizeof(uint32_t)}, stream,
         parts, count, keeps, to);
}

// The codes of 16 elements of a row, or zeros below the last row.
template <Fp8Format kFormat, class T>
__device__ __forceinline__ Vector<uint16_t, kGroup / 2> codes_of_group(const T* x, bool is_there,
                                                                       float scale,
                                                                       uint32_t& bits) {
  Vector<uint16_t, kGroup / 2> codes = {};
  if (!is_there) return codes;
  float values[kGroup];
  load<kGroup>(x, values);
#pragma unroll
  for (int j = 0; j < kGroup; j += 2) {
    bits = larger(bits, larger(magnitude_bits(values[j]), magnitude_bits(values[j + 1])));
    codes.values[j / 2] =
        two_codes<kFormat>(fp8_scaled(values[j], scale), fp8_scaled(values[j + 1], scale));
  }
  return codes;
}

// A block does a tile of kTile rows (blockIdx.x) and columns (blockIdx.y): a thread 16 elements of
// a row, then, from shared memory, 16 of a column.
template <Fp8Format kFormat, class T>
__global__ void __launch_bounds__(kCastThreads)
    cast_kernel(Fp8CastTensors t, int64_t M, int64_t K, int margin) {
  const int exponent = fp8_exponent(*t.largest, kFormat, margin);
  if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
    *t.inverse_scale = power_of_two(-exponent);
  }
  const int line = static_cast<int>(threadIdx.x) / kGroupsOfTile;
  const int group = static_cast<int>(threadIdx.x) % kGroupsOfTile * kGroup;
  const int64_t first_row = int64_t{blockIdx.x} * kTile, first_column = int64_t{blockIdx.y} * kTile;
  const int64_t row = first_row + line, column = first_column + group;
  const bool is_there = row < M && column < K;
  uint32_t bits = 0;
  const auto codes = codes_of_group<kFormat>(static_cast<const T*>(t.x) + row * K + column,
                                             is_there, power_of_two(exponent), bits);
  if (t.rows && is_there) {
    *reinterpret_cast<Vector<uint16_t, kGroup / 2>*>(t.rows + row * K + column) = codes;
  }
  if (t.columns) {
    auto* tile = shared_memory<uint8_t>();  // [kTile, kStride]
#pragma unroll
    for (int j = 0; j < kGroup / 2; j += 2) {
      *reinterpret_cast<Vector<uint16_t, 2>*>(tile + line * kStride + group +
                                              2 * j) = {{codes.values[j], codes.values[j + 1]}};
    }
    __syncthreads();
    const int64_t padded = (M + kGroup - 1) / kGroup * kGroup;
    if (first_column + line < K && first_row + group < padded) {
      Vector<uint8_t, kGroup> of_column;
#pragma unroll
      for (int i = 0; i < kGroup; ++i) of_column.values[i] = tile[(group + i) * kStride + line];
      *reinterpret_cast<Vector<uint8_t, kGroup>*>(t.columns + (first_column + line) * padded +
                                                  first_row + group) = of_column;
    }
    __syncthreads();  // the memory is used again below
  }
  if (!t.seen) return;
  bits = largest_of_block(bits, shared_memory<uint32_t>());
  if (threadIdx.x == 0) {
    t.parts[int64_t{blockIdx.x} * gridDim.y + blockIdx.y] = float_of_bits(bits);
  }
}

dim3 cast_grid(int64_t rows, int64_t width) {
  return dim3(static_cast<unsigned>((rows + kTile - 1) / kTile),
              static_cast<unsigned>((width + kTile - 1) / kTile));
}

}  // namespace

int64_t fp8_largest_parts(int64_t count) {
  constexpr int64_t kOfBlock = int64_t{kLargestThreads} * kGroup;
  return std::min(kMostParts, (count + kOfBlock - 1) / kOfBlock);
}

int64_t fp8_cast_parts(int64_t rows, int64_t width) {
  const auto grid = cast_grid(rows, width);
  return int64_t{grid.x} * grid.y;
}

void fp8_largest(const void* x, int64_t count, ElementType type, float* parts, float* largest,
                 Stream stream) {
  const int64_t P = fp8_largest_parts(count);
  with_element_type(type, [&](auto element) {
    using T = decltype(element);
    launch(largest_kernel<T>,
           {.grid = static_cast<unsigned>(P),
            .block = kLargestThreads,
            .shared_bytes = kWarp * sizeof(uint32_t)},
           stream, static_cast<const T*>(x), count, parts);
  });
  largest_of_parts(parts, P, /*keeps=*/false, largest, stream);
}

void fp8_cast(const Fp8CastTensors& tensors, const Fp8CastShape& shape, Stream stream) {
  const int64_t M = shape.rows, K = shape.width;
  with_element_type(shape.type, [&](auto element) {
    using T = decltype(element);
    launch(shape.format == Fp8Format::kE4M3 ? cast_kernel<Fp8Format::kE4M3, T>
                                            : cast_kernel<Fp8Format::kE5M2, T>,
           {.grid = cast_grid(M, K),
            .block = kCastThreads,
            .shared_bytes = static_cast<size_t>(kTile) * kStride},
           stream, tensors, M, K, shape.margin);
  });
  if (!tensors.seen) return;
  largest_of_parts(tensors.parts, fp8_cast_parts(M, K), /*keeps=*/true, tensors.seen, stream);
}

}  // namespace fovea::kernels::cuda
