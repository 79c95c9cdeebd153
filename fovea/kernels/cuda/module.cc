#include "fovea/kernels/cuda/module.h"

#include <cuda_runtime_api.h>

namespace fovea::kernels::cuda {
namespace {

int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

int capability_of(int gpu) {
  int major = 0, minor = 0;
  const bool is_told =
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu) == cudaSuccess &&
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu) == cudaSuccess;
  return is_told ? 10 * major + minor : 0;
}

}  // namespace
}  // namespace fovea::kernels::cuda

fovea::kernels::cuda::ModuleFacts fovea_tell_of_module() {
  using namespace fovea::kernels::cuda;  // NOLINT: of this file
  return {FOVEA_VERSION, FOVEA_CUDA_ARCHITECTURES, runtime_version(), capability_of};
}
