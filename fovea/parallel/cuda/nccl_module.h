// What the CUDA module offers beside its kernels; found by name once it is loaded, so that a CPU
// program links nothing of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

inline constexpr size_t kGpuIdBytes = 64;

// Writes what names GPU `index` of those that this process sees among all GPUs of all machines, a
// text of less than kGpuIdBytes; "" where CUDA does not say.
extern "C" void fovea_gpu_id(int index, char* id);

// A new ProcessGroupNCCL with one reference, which is the caller's. It keeps the store.
extern "C" c10d::Backend* fovea_make_nccl(c10d::Store* store, int rank, int size,
                                          int64_t timeout_ms);
