// What this process takes of the machine's memory.
#pragma once

#include <cstdint>

namespace fovea {

// The most memory this process has held at once, in bytes (VmHWM); 0 where the system does not say.
int64_t peak_memory_bytes();

// The memory that this process may use, in bytes: of the machine, or its cgroup's limit.
int64_t usable_memory_bytes();

// Starts the count anew, where the system allows it.
void reset_peak_memory();

}  // namespace fovea
