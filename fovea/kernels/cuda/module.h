// What the CUDA module offers beside its kernels; found by name once it is loaded, so that a CPU
// program links nothing of it.
#pragma once

#include <cstddef>

#include "fovea/kernels/measured_choices.h"

namespace fovea::kernels::cuda {

inline constexpr size_t kAlgorithmBytes = 64;  // of one of cuBLASLt's algorithms

struct ModuleFacts {
  const char *version, *architectures;  // of Fovea; as in "80-real,90"
  int runtime_version;                  // of CUDA, 1000 major + 10 minor
  int (*capability_of)(int gpu);        // 10 major + minor; 0: CUDA does not say
};

}  // namespace fovea::kernels::cuda

// Where algorithms of products are looked up, and kept once they are measured. Outlives all
// products.
extern "C" void fovea_use_product_choices(fovea::kernels::MeasuredChoices* choices);

extern "C" fovea::kernels::cuda::ModuleFacts fovea_tell_of_module();
