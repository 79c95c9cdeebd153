#include "fovea/kernels/cuda/lt_product.h"

#include "fovea/kernels/cuda/lt_algorithm.h"
#include "fovea/kernels/cuda/torch_gpu.h"

#if FOVEA_HIP
#include "fovea/kernels/cuda/hipblas_product.h"
#endif

namespace fovea::kernels::cuda {
namespace {

// Bytes that an address is a multiple of, as far as algorithms ask.
uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (const uint32_t bytes : {256, 16, 8, 4}) {
    if (address % bytes == 0) return bytes;
  }
  return 2;
}

}  // namespace

bool run_lt_call(const LtCall& call, const LtOperands& operands) {
  const int device = c10::cuda::current_device();
  const void* c = call.adds_c ? operands.c : operands.d;  // cuBLASLt does not read what it need not
  Descriptors descriptors(call, operands);
  const AlgorithmKey key{.call = call,
                         .device = device,
                         .a = alignment_of(operands.a),
                         .b = alignment_of(operands.b),
                         .c = alignment_of(c),
                         .d = alignment_of(operands.d),
                         .bias = alignment_of(operands.bias),
                         .other = alignment_of(operands.other)};
  const Product product{key, operands, c, descriptors};
  const auto algorithm = algorithm_for(product);
#if FOVEA_HIP
  if (!algorithm.is_there) return run_hipblas_call(call, operands);
#else
  if (!algorithm.is_there) return false;
#endif
  const auto status = product.run(algorithm);
  const bool is_refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (is_refused && !is_capturing()) {
    leave_out(key, status);
    return false;
  }
  check_status(status, call, "the product");
  return true;
}

}  // namespace fovea::kernels::cuda
