// The device that computations run on, and the GPU back end, which is loaded at run time where
// there is one.
#pragma once

#include <c10/core/Device.h>

#include <string>

namespace fovea::kernels {

struct CudaBackend {
  bool is_loaded = false;
  int num_devices = 0;
  std::string reason;  // what was loaded from where, or what is missing and what to do
};

// Loads libtorch_cuda.so (from beside libtorch_cpu.so) and then libfovea_cuda.so (from beside the
// program, or the folders above it), if an NVIDIA driver is there; with a libtorch for ROCm and an
// AMD driver libtorch_hip.so and libfovea_hip.so; otherwise nothing happens. The
// first call does the work, later ones return its result; from any thread. It must come before the
// first use of tensors: libtorch asks once whether CUDA is there and keeps the answer.
const CudaBackend& load_cuda_backend();

// The GPU that "auto" and "cuda" stand for in this process from now on; before: the first one.
void set_default_gpu(int index);

// "auto" (the default GPU where the back end loads, else the CPU), "cpu", "cuda" or "cuda:1".
// Throws ConfigError for another name, and for a GPU that is not there, with the reason.
c10::Device resolve_device(const std::string& name);

// Waits until a device has done what it was given; the CPU has.
void synchronize(c10::Device device);

}  // namespace fovea::kernels
