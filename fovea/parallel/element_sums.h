// Sums and maxima of what two ranks have, element by element, in plain memory.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

// out[i] = a[i] op b[i]; out may be a or b. In the caller's thread alone.
using Combine = void (*)(void* out, const void* a, const void* b, int64_t count);

// Of two tensors of `in` into one of `out`: the same dtype, or sums of bfloat16 in float32. Of
// bfloat16 each sum is rounded once; a maximum with NaN is what std::max makes of it. Throws Error:
// a dtype that ranks do not exchange.
Combine combine_of(ReduceOp op, at::ScalarType in, at::ScalarType out);

}  // namespace fovea::parallel
