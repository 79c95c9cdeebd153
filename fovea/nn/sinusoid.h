// The fixed position table of Vaswani et al. 2017 ("Attention is all you need", section 3.5).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::nn {

// Row p, column j: sin (j even) or cos (j odd) of p / 10000^(2 floor(j / 2) / dim), computed in
// float64. -> [1, num_positions, dim] float32 on the CPU. dim >= 1, even or odd.
at::Tensor sinusoid_table(int64_t num_positions, int64_t dim);

}  // namespace fovea::nn
