// The library that makes products: cuBLASLt, or on AMD's GPUs hipBLASLt under its names. What the
// two have in different ways has a name of ours:
//
// LtProductDescriptor, LtLayout, LtPreference: init() makes one, get() is what the library takes.
// bytes_of(), find_steps(): an algorithm as bytes that are kept from run to run, and back.
#pragma once

#include "fovea/kernels/cuda/launch.h"

#if FOVEA_HIP
#include "fovea/kernels/cuda/hipblas_lt.h"
#else
#include "fovea/kernels/cuda/cublas_lt.h"
#endif
