#include "fovea/kernels/cuda/module.h"

#include "fovea/kernels/amd_architecture.h"
#include "fovea/kernels/cuda/runtime.h"

namespace fovea::kernels::cuda {
namespace {

#if FOVEA_HIP
int runtime_version() {
  int version = 0;  // 10,000,000 major + 100,000 minor + patch
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) return 0;
  return version / 10000000 * 1000 + version / 100000 % 100 * 10;
}

int capability_of(int gpu) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, gpu) != cudaSuccess) return 0;
  return amd_architecture(properties.gcnArchName);
}
#else
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
#endif

}  // namespace
}  // namespace fovea::kernels::cuda

fovea::kernels::cuda::ModuleFacts fovea_tell_of_module() {
  using namespace fovea::kernels::cuda;  // NOLINT: of this file
  return {FOVEA_VERSION, FOVEA_CUDA_ARCHITECTURES, runtime_version(), capability_of};
}
