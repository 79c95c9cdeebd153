// The runtime that the module's host files call: CUDA's, or HIP's under CUDA's names.
#pragma once

#include "fovea/kernels/cuda/launch.h"

#if FOVEA_HIP
#include <hip/hip_runtime_api.h>

using cudaDeviceProp = hipDeviceProp_t;
inline constexpr auto cudaSuccess = hipSuccess;
inline constexpr unsigned cudaEventDefault = hipEventDefault;
inline constexpr auto cudaStreamCaptureModeRelaxed = hipStreamCaptureModeRelaxed;
inline constexpr auto cudaStreamCaptureModeThreadLocal = hipStreamCaptureModeThreadLocal;
inline constexpr auto cudaGetDeviceProperties = &hipGetDeviceProperties;
inline constexpr auto cudaRuntimeGetVersion = &hipRuntimeGetVersion;
#else
#include <cuda_runtime_api.h>
#endif
