// What cuBLASLt wants to be told of a call of lt_call.h.
#pragma once

#include <string>

#include "fovea/kernels/cuda/lt_call.h"
#include "fovea/kernels/cuda/lt_library.h"
#include "fovea/kernels/cuda/lt_product.h"

namespace fovea::kernels::cuda {

cudaDataType_t data_type(ElementType type);

std::string text_of(const LtCall& call);

// Throws Error, with the step that failed.
void check_status(cublasStatus_t status, const LtCall& call, const char* step);

// The descriptors of one call. They are made each time, which takes less than a microsecond and, of
// cuBLASLt, no memory, because they hold pointers: kept ones would be one thread's alone.
class Descriptors {
 public:
  Descriptors(const LtCall& call, const LtOperands& operands);

  LtProductDescriptor product;
  LtLayout a, b, d;
};

}  // namespace fovea::kernels::cuda
