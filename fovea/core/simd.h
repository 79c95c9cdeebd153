// One source, several instruction sets: a function marked FOVEA_SIMD is compiled for the x86-64
// baseline, AVX2 and AVX-512, and the loader picks the clone that fits the machine. The levels
// x86-64-v3 and v4 ask for features; a name such as haswell asks for that maker's processor, and
// would leave every other maker's with the baseline. Loops inside are written plainly and
// vectorised by the compiler; sums say `#pragma omp simd reduction(+ : ...)`, which fixes their
// order for a given instruction set.
#pragma once

namespace fovea {

// Whether code for AVX-512 and what is built on it runs where the processor has it. The build with
// FOVEA_AVX2_ONLY is for tests and measurements of the other code on such a processor.
#ifdef FOVEA_AVX2_ONLY
inline constexpr bool kUsesAvx512 = false;
#define FOVEA_SIMD_LEVELS "default", "arch=x86-64-v3"
#else
inline constexpr bool kUsesAvx512 = true;
#define FOVEA_SIMD_LEVELS "default", "arch=x86-64-v3", "arch=x86-64-v4"
#endif

}  // namespace fovea

// Not with clang, which builds the fuzz targets: its clones do not go with sanitizers. Nor with
// ThreadSanitizer: what chooses a clone would call it before the loader has found it.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define FOVEA_SIMD __attribute__((target_clones(FOVEA_SIMD_LEVELS)))
#else
#define FOVEA_SIMD
#endif
