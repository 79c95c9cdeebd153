// The matrix product with learned weights, named as torch.nn.Linear.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/nn/unit.h"
#include "fovea/nn/unit_holder.h"

namespace fovea::nn {

// y = x weight^T + bias. x: [..., in_features] -> [..., out_features]. The weights are allocated on
// `device` (meta: structure without memory) and hold no values until init or load.
class LinearImpl : public UnitImpl {
 public:
  LinearImpl(int64_t in_features, int64_t out_features, bool has_bias, at::Device device);

  // activation: of x, before the product; what it makes of x is not kept for the backward pass.
  // residual: added to y, which it is shaped as; undefined: none.
  at::Tensor forward(const kernels::LinearInput& x,
                     const std::optional<kernels::HiddenActivation>& activation = {},
                     const at::Tensor& residual = {}) const;

  // Whether forward() is the kernel's product and nothing else.
  bool is_plain() const;

  at::Tensor weight;  // [out_features, in_features]
  at::Tensor bias;    // [out_features], or undefined

  // Set from outside where the features are split over processes: the first is applied to x, the
  // second to the product, before the bias is added (a row-split product is a pending sum).
  std::function<at::Tensor(const at::Tensor&)> input_transform;
  std::function<at::Tensor(const at::Tensor&)> output_transform;

  // Set from outside where training multiplies in another way, such as in FP8: the product of x,
  // as the transform gives it, in training mode. As kernels::linear_of_activation, or linear.
  std::function<at::Tensor(const at::Tensor& x,
                           const std::optional<kernels::HiddenActivation>& activation,
                           const at::Tensor& weight, const at::Tensor& bias)>
      training_product;

 private:
  at::Tensor product(const kernels::LinearInput& x,
                     std::optional<kernels::HiddenActivation> activation,
                     const at::Tensor& own_bias, const at::Tensor& residual) const;
};
using Linear = UnitHolder<LinearImpl>;

}  // namespace fovea::nn
