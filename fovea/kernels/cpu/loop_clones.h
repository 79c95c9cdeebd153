// Loops for several instruction sets, as FOVEA_SIMD (core/simd.h) makes them, but chosen by
// kernel_paths() and not by the loader, so that FOVEA_KERNELS reaches them too.
#pragma once

#include "fovea/core/simd.h"
#include "fovea/kernels/kernel_paths.h"

// Of a loop's lambda: it is inlined into each clone, and so compiled for its instruction set.
#define FOVEA_LOOP __attribute__((always_inline))

// Not with clang and sanitizers, as FOVEA_SIMD.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define FOVEA_LOOP_AVX2 __attribute__((noinline, target("arch=x86-64-v3")))
#ifdef FOVEA_AVX512_EMULATION
#define FOVEA_LOOP_AVX512 FOVEA_LOOP_AVX2
#else
#define FOVEA_LOOP_AVX512 __attribute__((noinline, target("arch=x86-64-v4")))
#endif
#else
#define FOVEA_LOOP_AVX2
#define FOVEA_LOOP_AVX512
#endif

namespace fovea::kernels::cpu {

// By value, for then the compiler knows that nothing written to changes what it captured.
template <class Loop>
FOVEA_LOOP_AVX2 auto run_in_avx2(Loop loop) {
  return loop();
}
template <class Loop>
FOVEA_LOOP_AVX512 auto run_in_avx512(Loop loop) {
  return loop();
}

// loop(), a lambda that is FOVEA_LOOP and captures by value, on the path of an operation.
template <KernelOp kOp, class Loop>
auto run_loop(Loop loop) {
  switch (kernel_paths().of(kOp, at::kFloat).path) {
    case KernelPath::kAvx512:
      return run_in_avx512(loop);
    case KernelPath::kAvx2:
      return run_in_avx2(loop);
    default:
      return loop();
  }
}

}  // namespace fovea::kernels::cpu
