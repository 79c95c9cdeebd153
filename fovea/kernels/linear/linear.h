// Matrix products with the weight layout of torch.nn.Linear.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/elementwise/norm.h"

namespace fovea::kernels {

// What a product is of: a tensor, or what layer_norm has made, of which the backward pass keeps
// what the norm keeps anyhow, and norms again where memory is short (recompute_cheap.h).
struct LinearInput {
  LinearInput(at::Tensor tensor) : x(std::move(tensor)) {}  // NOLINT: as a tensor
  LinearInput(at::Tensor tensor, NormedInput made_of)
      : x(std::move(tensor)), normed(std::move(made_of)) {}

  // `residual`, or where that is what the norm was of, the norm's skip, whose gradient costs no
  // pass of its own.
  at::Tensor skip_for(const at::Tensor& residual, const at::Tensor& norm_input) const {
    const bool is_same = residual.defined() && residual.is_same(norm_input);
    return is_same && normed.skip.defined() ? normed.skip : residual;
  }

  at::Tensor x;  // [..., K]
  NormedInput normed;
};

// y = x W^T + b (+ residual). x: [..., K], weight: [N, K], bias: [N] or undefined, residual: as y,
// or undefined -> [..., N].
// Computes in the dtype of x: float32 parameters are cast when x is bfloat16, and their gradients
// come back in the parameters' own dtype, accumulated in float32. That rule is all that mixed
// precision needs of a model. On a GPU bias and residual are added before the sum is rounded. A
// weight with codes of 8-bit integers (weight_copies.h) is multiplied by those where x is float32
// on a CPU; gradients are then those of the product with the weight itself.
at::Tensor linear(const LinearInput& x, const at::Tensor& weight, const at::Tensor& bias,
                  const at::Tensor& residual = {});

// Of fewer rows a product may be another one, and a library's.
inline constexpr int64_t kLeastRowsApart = 64;

// The hidden features of a feed-forward layer.
struct HiddenFeatures {
  at::Tensor before;  // the activation
  at::Tensor after;   // without a gradient of its own, or undefined: nobody has computed it
};

// linear(), with what the activation makes of it where that costs no pass over memory: gelu_tanh on
// a GPU, of the sum before it is rounded; GELU of float32 with AVX2. Where no gradient is recorded
// `before` may be that, too.
HiddenFeatures linear_to_activation(const LinearInput& x, const HiddenActivation& activation,
                                    const at::Tensor& weight, const at::Tensor& bias);

// linear(activate(x.before, activation), weight, bias, residual), to the bit, its gradients too;
// but on a GPU the gradient through gelu_tanh is taken before the product that it comes from is
// rounded. Where memory is short (recompute_cheap.h) the backward pass keeps x.before alone, and
// activates again what it needs: a third of what a block of a ViT keeps is not kept, for a
// hundredth of the time.
at::Tensor linear_of_activation(const HiddenFeatures& x, const HiddenActivation& activation,
                                const at::Tensor& weight, const at::Tensor& bias,
                                const at::Tensor& residual = {});

}  // namespace fovea::kernels
