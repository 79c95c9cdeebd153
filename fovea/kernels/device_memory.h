// What this process takes of a device's memory: of a GPU what libtorch's allocator has given to
// tensors, of the CPU what the process holds (core/memory.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace fovea::kernels {

// Of a GPU; 0 where libtorch has no allocator for it.
int64_t allocated_bytes(c10::Device gpu);

// What this process could have of a GPU's memory when it first asked; 0 as above.
int64_t memory_for_us(c10::Device gpu);

// The most at once since the start, or since the last reset.
int64_t peak_memory_bytes(c10::Device device);
void reset_peak_memory(c10::Device device);

// What the allocator of this device keeps for later goes back.
void release_kept_memory(c10::Device device);

}  // namespace fovea::kernels
