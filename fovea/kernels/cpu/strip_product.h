// Products of float32 in libtorch's threads (see Note [Strips]).
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/product_sizes.h"
#include "fovea/kernels/cpu/strips.h"

namespace fovea::kernels::cpu {

// Float32 [rows, columns], rows `stride` apart, with a bias [columns] or null that the sums begin
// with. Once they are whole, a residual [rows, columns] or null is added to them, or gelu, where
// that is not null, becomes GELU of them; it lies as data does, and may be it.
struct StripResult {
  float* data;
  int64_t stride;
  const float* bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_stride = 0;
  float* gelu = nullptr;
};

// How many values pack_strips writes.
int64_t packed_strips_size(int64_t depth, int64_t columns);
// Packs all strips of a second factor [depth, columns], one behind another; to: at a cache line.
void pack_strips(const FloatFactor& second, int64_t depth, int64_t columns, float* to);

// first [rows, depth], not of bfloat16, times second [depth, columns]. packed: what pack_strips
// makes of `second`, or null: it is packed on the way. Each sum has the same bits for any number of
// threads, packed before or not.
void strip_product(const FloatFactor& first, const FloatFactor& second, const float* packed,
                   const ProductSizes& sizes, const StripResult& result);

// The same of rows of bfloat16, by their bits and `stride` apart, and strips that are packed: sums
// are of float32, and rounded as Bfloat16Result has it.
void strip_product(const uint16_t* first, int64_t stride, const float* packed,
                   const ProductSizes& sizes, const Bfloat16Result& result);

}  // namespace fovea::kernels::cpu
