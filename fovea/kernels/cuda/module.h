// What the CUDA module offers beside its kernels; found by name once it is loaded, so that a CPU
// program links nothing of it.
#pragma once

#include <array>
#include <cstddef>

#include "fovea/kernels/measured_choices.h"

namespace fovea::kernels::cuda {

inline constexpr size_t kAlgorithmBytes = 64;  // of one of cuBLASLt's algorithms
using AlgorithmBytes = std::array<unsigned char, kAlgorithmBytes>;

struct ModuleFacts {
  const char *version, *architectures;  // of Fovea; as in "80-real,90", or in "gfx90a,gfx942"
  int runtime_version;                  // of CUDA or HIP, 1000 major + 10 minor
  // 10 major + minor, or of AMD's GPUs amd_architecture(); 0: the runtime does not say.
  int (*capability_of)(int gpu);
};

}  // namespace fovea::kernels::cuda

// Where algorithms of products are looked up, and kept once they are measured. Outlives all
// products.
extern "C" void fovea_use_product_choices(fovea::kernels::MeasuredChoices* choices);

extern "C" fovea::kernels::cuda::ModuleFacts fovea_tell_of_module();
