// Work that is shared out among threads, each piece of it for one thread alone.
#pragma once

#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace fovea::kernels::cpu {

// Calls body(i) for each i below `count`, in the threads that come free, with the calling thread's
// modes (gradients, dispatch). What it asks of libtorch or of these kernels runs in that thread
// alone. Throws what the first one that fails throws.
void each_alone(int64_t count, c10::function_ref<void(int64_t)> body);

}  // namespace fovea::kernels::cpu
