// A stand-in for two GPUs in a process that loads nothing of CUDA: tensors on "cuda" are in the
// host's memory and operators are the CPU's, so that what the program does for a GPU runs where
// there is none: its streams, pinned copies, allocator and device threads of backward passes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::stub_gpu {

inline c10::Device gpu(c10::DeviceIndex index = 0) { return {c10::kCUDA, index}; }

// Memory of all of them.
struct Memory {
  int64_t in_use = 0, peak = 0;              // bytes
  int64_t emptied = 0;                       // times that what is kept was given back
  std::vector<c10::DeviceIndex> asked = {};  // who gave memory, by call
};
Memory memory();
// Forgets who was asked; the peak is what is in use.
void forget_asked();
// Beyond which memory has run out, in bytes in use; 0: none. A limit that is passed throws as
// libtorch's allocator for CUDA does.
void limit_memory(int64_t bytes);

// From now on products of more rows than this fail as cuBLAS does without memory for its workspace;
// 0: of none.
void limit_rows_of_products(int64_t rows);

// Which operators came to the GPUs, by name, since the last call.
std::vector<std::string> take_operators();

}  // namespace fovea::stub_gpu
