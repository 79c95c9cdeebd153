// The linear layer with its three products in FP8: activations and weights in E4M3, gradients in
// E5M2.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/linear/fp8.h"

namespace fovea::kernels {

// What one tensor of a layer is scaled for. Current scaling: its own largest value, which takes a
// pass over it. Delayed scaling: what was seen before, with a power of two to spare.
struct Fp8Scaling {
  at::Tensor past = {};  // [1] float32: the largest value seen before; undefined: current scaling
  at::Tensor seen = {};  // [1] float32: becomes max(itself, the largest value); undefined: unwanted
};

// The codes of a layer's weight, which the first pass of a step makes and those after it, forward
// or backward, find; other bits they cannot have. Made anew once the weight's version has moved on,
// and after forget(), for what changes without that: a scale, or the storage of a weight that is
// gathered. The layer's passes come one after the other.
struct Fp8WeightCodes {
  void forget() { *this = Fp8WeightCodes(); }

  at::Tensor largest = {};     // what they are scaled for
  Fp8Matrix matrix = {};       // the forms that were asked for
  const void* data = nullptr;  // of the weight
  int64_t version = -1;
};

struct Fp8LinearScaling {
  Fp8Scaling x, weight, gradient;
  std::shared_ptr<Fp8WeightCodes> codes = {};  // null: the weight is cast for each pass
};

// linear_of_activation, or linear where there is no activation, with rounded factors: x bfloat16
// [..., K], weight [N, K] float32 or bfloat16, K and N multiples of kFp8Alignment, -> [..., N]
// bfloat16. The backward pass keeps the codes of x in place of x, or what the activation is of. The
// gradient of the bias is that of linear. `past` is not to change between forward and backward.
at::Tensor fp8_linear(const at::Tensor& x, const std::optional<HiddenActivation>& activation,
                      const at::Tensor& weight, const at::Tensor& bias,
                      const Fp8LinearScaling& scaling = {});

}  // namespace fovea::kernels
