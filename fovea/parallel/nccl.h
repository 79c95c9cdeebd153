// NCCL, which the CUDA module brings: collectives between GPUs.
#pragma once

#include <memory>

#include "fovea/parallel/launch_env.h"

namespace fovea::parallel {

struct DeviceBackend;

// Groups over NCCL for ranks with a GPU each. Null where there is none to be had: the CUDA module
// is not loaded or was built without nccl.h, or ranks of this machine share a GPU, which NCCL
// refuses. Tensors on GPUs then travel through host memory and Gloo. num_devices: GPUs that this
// process sees.
std::shared_ptr<const DeviceBackend> nccl_backend(const Launch& launch, int num_devices);

// Whether the CUDA module that is loaded brings NCCL.
bool has_nccl();

}  // namespace fovea::parallel
