// NCCL, which the CUDA module brings: collectives between GPUs.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace fovea::parallel {

struct DeviceBackend;

// Groups over NCCL for ranks with a GPU each. Null where there is none to be had: the CUDA module
// is not loaded or was built without nccl.h. Tensors on GPUs then travel through host memory and
// Gloo. gpu: index of this process's, among those that it sees, which may be one.
std::shared_ptr<const DeviceBackend> nccl_backend(int gpu);

// Why ranks that compute on these devices, by rank, cannot have groups between devices: two of them
// share one, which NCCL refuses, or one has none (empty). Empty: they can.
std::string why_no_device_groups(const std::vector<std::string>& devices);

// Whether the CUDA module that is loaded brings NCCL.
bool has_nccl();

}  // namespace fovea::parallel
