#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "fovea/parallel/cuda/nccl_module.h"

c10d::Backend* fovea_make_nccl(c10d::Store* store, int rank, int size, int64_t timeout_ms) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(timeout_ms);
  const auto shared = c10::intrusive_ptr<c10d::Store>::reclaim_copy(store);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(shared, rank, size, options).release();
}
