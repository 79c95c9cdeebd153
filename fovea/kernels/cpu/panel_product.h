// Products of whole matrices of bfloat16 on AMX or AVX-512, in ATen's threads.
#pragma once

#include <cstdint>
#include <optional>

#include "fovea/kernels/cpu/panels.h"
#include "fovea/kernels/cpu/product_sizes.h"

namespace fovea::kernels::cpu {

// As bfloat16 [rows, columns], rows `stride` apart, with a bias [columns] of float32 or null added
// before rounding, and a residual [rows, columns] or null added then, which rounds once more.
struct Bfloat16Result {
  uint16_t* data;
  int64_t stride;
  const float* bias = nullptr;
  const uint16_t* residual = nullptr;
  int64_t residual_stride = 0;
};

// As float32 [rows, columns], or transposed: [columns, rows].
struct FloatResult {
  float* data;
  int64_t stride;
  bool is_transposed = false;
  float* row_sums = nullptr;  // [rows]: the first factor's sums over depth, where they are wanted
};

// first [rows, depth] times second [depth, columns]; each of them is read once. Each sum is taken
// in one order, whatever the number of threads. Needs has_panel_products().
void panel_product(PanelUnit unit, const Factor& first, const Factor& second,
                   const ProductSizes& sizes, const Bfloat16Result& result);
void panel_product(PanelUnit unit, const Factor& first, const Factor& second,
                   const ProductSizes& sizes, const FloatResult& result);

}  // namespace fovea::kernels::cpu
