// What the files of operators share.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/cuda/torch_gpu.h"

// A namespace of their own: an operator may have the name of the function that it calls.
namespace fovea::kernels::cuda::operators {

using OptionalTensor = std::optional<at::Tensor>;

// While alive kernels go to the current stream of the device of x; a launch that failed throws at
// its end.
class Launch {
 public:
  explicit Launch(const at::Tensor& x) : guard_(x.device()) {}

  Stream stream() const { return c10::cuda::getCurrentCUDAStream(); }
  void check() const { C10_CUDA_KERNEL_LAUNCH_CHECK(); }

 private:
  c10::cuda::CUDAGuard guard_;
};

inline ElementType element_type(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return ElementType::kFloat32;
    case at::kBFloat16:
      return ElementType::kBFloat16;
    case at::kHalf:
      return ElementType::kFloat16;
    default:
      TORCH_CHECK(false, "fovea's kernels are for float32, bfloat16 and float16, not ", dtype);
  }
}

inline ElementType element_type(const at::Tensor& x) { return element_type(x.scalar_type()); }

// x: [M, N], M and N above 0 -> [N] float32.
at::Tensor sum_rows(const at::Tensor& x);

}  // namespace fovea::kernels::cuda::operators
