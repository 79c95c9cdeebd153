// What libtorch has for GPUs. Headers of a libtorch for ROCm have HIP in their names; what they
// declare keeps CUDA's names from libtorch 2.11 on, devices of type CUDA among it.
#pragma once

#include "fovea/kernels/cuda/launch.h"

#if FOVEA_HIP
#include <ATen/hip/HIPContextLight.h>
#include <ATen/hip/HIPEvent.h>
#include <ATen/hip/HIPGraph.h>
#include <c10/hip/HIPCachingAllocator.h>
#include <c10/hip/HIPEvent.h>
#include <c10/hip/HIPException.h>
#include <c10/hip/HIPFunctions.h>
#include <c10/hip/HIPGraphsC10Utils.h>
#include <c10/hip/HIPGuard.h>
#include <c10/hip/HIPStream.h>
#else
#include <ATen/cuda/CUDAContextLight.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif
