// NCCL, or RCCL, which is under the same names in a libtorch for ROCm.
#include <cstdio>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "fovea/kernels/cuda/runtime.h"
#include "fovea/parallel/cuda/nccl_module.h"

c10d::Backend* fovea_make_nccl(c10d::Store* store, int rank, int size, int64_t timeout_ms) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(timeout_ms);
  const auto shared = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(shared, rank, size, options).release();
}

void fovea_gpu_id(int index, char* id) {
  cudaDeviceProp properties{};
  id[0] = '\0';
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return;
  for (size_t i = 0; i < sizeof(properties.uuid.bytes); ++i) {
    std::snprintf(id + 2 * i, 3, "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
  }
}
