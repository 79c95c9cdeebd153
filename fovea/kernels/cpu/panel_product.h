// Products of whole matrices of bfloat16 on AMX or AVX-512, in ATen's threads.
#pragma once

#include <cstdint>
#include <optional>

#include "fovea/kernels/cpu/panels.h"
#include "fovea/kernels/cpu/product_sizes.h"

namespace fovea::kernels::cpu {

// As float32 [rows, columns], or transposed: [columns, rows].
struct FloatResult {
  float* data;
  int64_t stride;
  bool is_transposed = false;
  float* row_sums = nullptr;  // [rows]: the first factor's sums over depth, where they are wanted

  // What is from `row` and `column` on.
  FloatResult part(int64_t row, int64_t column) const {
    auto some = *this;
    some.data += is_transposed ? column * stride + row : row * stride + column;
    if (row_sums) some.row_sums += row;
    return some;
  }
};

// All of this needs has_panel_products().

// How many values pack_panels writes.
int64_t packed_panels_size(int64_t depth, int64_t columns);
// Packs all panels of a second factor [depth, columns], one behind another; to: at a cache line.
void pack_panels(Factor second, int64_t depth, int64_t columns, uint16_t* to);

// A second factor [depth, columns], where it lies, or what pack_panels makes of it.
struct SecondFactor {
  Factor factor{};
  const uint16_t* packed = nullptr;
};

// first [rows, depth] times second [depth, columns]; each of them is read once. Each sum is taken
// in one order, whatever the number of threads, packed before or not.
void panel_product(PanelUnit unit, const Factor& first, const SecondFactor& second,
                   const ProductSizes& sizes, const Bfloat16Result& result);
void panel_product(PanelUnit unit, const Factor& first, const SecondFactor& second,
                   const ProductSizes& sizes, const FloatResult& result);

}  // namespace fovea::kernels::cpu
