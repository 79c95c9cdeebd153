// Largest values and casts of ../fp8.h on a GPU. A maximum is the same in any order, so blocks
// share out the work as they like.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/linear/fp8_elements.h"

namespace fovea::kernels::cuda {

// Numbers that each kernel leaves for a second one to compare.
int64_t fp8_largest_parts(int64_t count);
int64_t fp8_cast_parts(int64_t rows, int64_t width);

// x: `count` elements, above 0, that begin at 16 bytes; parts: [fp8_largest_parts(count)];
// largest: [1].
void fp8_largest(const void* x, int64_t count, ElementType type, float* parts, float* largest,
                 Stream stream);

struct Fp8CastTensors {
  const void* x;         // [M, K]
  const float* largest;  // [1]
  uint8_t* rows;         // [M, K], or null
  uint8_t* columns;      // [K, M'], M' = M rounded up to 16, or null
  float* inverse_scale;  // [1]
  float* seen;           // [1], or null
  float* parts;          // [fp8_cast_parts(M, K)], with seen
};

struct Fp8CastShape {
  int64_t rows, width;  // M, above 0, and K, a multiple of 16
  ElementType type;
  Fp8Format format;
  int margin;
};

// All contiguous on the current device; matrices begin at 16 bytes.
void fp8_cast(const Fp8CastTensors& tensors, const Fp8CastShape& shape, Stream stream);

}  // namespace fovea::kernels::cuda
