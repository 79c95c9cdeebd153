// What the CUDA module offers beside its kernels; found by name once it is loaded, so that a CPU
// program links nothing of it.
#pragma once

#include <cstddef>

#include "fovea/kernels/measured_choices.h"

namespace fovea::kernels::cuda {

inline constexpr size_t kAlgorithmBytes = 64;  // of one of cuBLASLt's algorithms

}  // namespace fovea::kernels::cuda

// Where algorithms of products are looked up, and kept once they are measured. Outlives all
// products.
extern "C" void fovea_use_product_choices(fovea::kernels::MeasuredChoices* choices);
