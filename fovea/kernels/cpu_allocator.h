// Memory for CPU tensors that is kept for the next tensor of its size.
//
// Note [Memory is kept]. The C library gives every block above 32 MiB back to the system when it is
// freed, and the system hands it out again page by page, each cleared and costing a fault: for the
// activations of a training step that takes longer than the arithmetic on them (a 38 MB conversion:
// 10 ms, on kept memory 1 ms). So blocks are kept, in huge pages where they are large. What is held
// stays below 33/32 of the most that was ever in use at once, or 32 MiB above it if that is more:
// beyond it, kept blocks go back before new ones are asked for, the oldest first. More would save
// no time: a step asks for the same few sizes. Less would cost threads that go through a model each
// by itself, whose sizes together are seldom those of the peak: ViT-S at 16 images in float32 asked
// the system for 65 MB in each pass.
#pragma once

#include <cstdint>

namespace fovea::kernels {

// Makes this the allocator of all CPU tensors from now on; calling it again changes nothing.
// Tensors made before keep the allocator they came from. Without effect under AddressSanitizer,
// which wants to see each block freed.
void use_caching_cpu_allocator();

// What is kept goes back to the system: for those who ask it for memory by themselves.
void release_kept_cpu_memory();

struct CpuMemory {
  int64_t in_use_bytes = 0;       // of live tensors
  int64_t peak_in_use_bytes = 0;  // the most of that so far
  int64_t kept_bytes = 0;         // freed and kept
};

// What the allocator above holds; all zero before it is in use. Blocks below 64 KiB are not
// counted.
CpuMemory cpu_memory();

}  // namespace fovea::kernels
