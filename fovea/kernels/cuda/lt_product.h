// Runs the calls of lt_call.h on the current device and stream.
#pragma once

#include "fovea/kernels/cuda/lt_call.h"

namespace fovea::kernels::cuda {

// Device memory that lies as the call says.
struct LtOperands {
  const void *a, *b;
  void* d;
  const void* c = nullptr;  // may be d
  void* bias = nullptr;     // read, or written by kBiasGradient; of d's type
  void* other = nullptr;    // read by kTanhGelu, written by kGelu and kBiasAndGelu
};

// From any thread, and while a CUDA graph is captured. The same bits each time: no algorithm that
// adds with atomics. False, with nothing written and a warning the first time: cuBLASLt has no such
// algorithm for the call, and on AMD's GPUs hipBLAS has none either. Throws Error for what cuBLASLt
// refuses otherwise.
bool run_lt_call(const LtCall& call, const LtOperands& operands);

}  // namespace fovea::kernels::cuda
