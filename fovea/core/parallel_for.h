// Independent pieces of work over threads, for what is done once: indices, checks, packing.
#pragma once

#include <cstdint>
#include <functional>

namespace fovea {

// Calls work(i) for each i in [0, count), in up to `threads` threads (0: one for each core). An
// exception stops the rest; that of the smallest i is thrown, so that the message does not depend
// on timing.
void parallel_for(int64_t count, int64_t threads, const std::function<void(int64_t)>& work);

}  // namespace fovea
