// Layer norm over rows (../norm.h) on a GPU. Everything in float32 but the elements of x and y.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"

namespace fovea::kernels::cuda {

inline constexpr int64_t kMaxNormWidth = 8192;

struct NormShape {
  int64_t rows, width;  // M above 0, D of 1 to kMaxNormWidth
  ElementType type;     // of x, y and their gradients
};

// All contiguous on the current device.
struct NormForward {
  const void* x;        // [M, D]
  const float* weight;  // [D] or null: 1
  const float* bias;    // [D] or null: 0
  float eps;
  void* y;      // [M, D]
  float* mean;  // [M]
  float* rstd;  // [M]
};

void layer_norm_forward(const NormForward& norm, const NormShape& shape, Stream stream);

struct NormBackward {
  const void *dy, *x;                 // [M, D]
  const void* dskip;                  // [M, D], added to dx before that is rounded; or null
  const float *weight, *mean, *rstd;  // [D] or null, [M], [M]
  void* dx;                           // [M, D]
  // P rows of D each, parts_stride apart, or null: sums over the rows of each part. Their sums over
  // parts are the gradients, and the sums of dx, before it is rounded, over all rows.
  float *dweight_parts, *dbias_parts, *dx_parts;
  int64_t parts_stride;  // a multiple of D
};

// P: parts that the rows are cut into, by their number alone.
int64_t layer_norm_parts(const NormShape& shape);
void layer_norm_backward(const NormBackward& norm, const NormShape& shape, Stream stream);

}  // namespace fovea::kernels::cuda
