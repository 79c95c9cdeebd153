#include "fovea/nn/linear.h"

#include <ATen/ops/empty.h>

#include "fovea/kernels/linear.h"

namespace fovea::nn {

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, bool has_bias,
                       at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  weight = register_parameter("weight", at::empty({out_features, in_features}, options));
  if (has_bias) bias = register_parameter("bias", at::empty({out_features}, options));
}

at::Tensor LinearImpl::forward(const at::Tensor& x,
                               const std::optional<kernels::HiddenActivation>& activation) {
  return run(
      [this, activation](const at::Tensor& given) {
        if (!output_transform) return product(given, activation, bias);
        const auto pending = output_transform(product(given, activation, at::Tensor()));
        return bias.defined() ? pending + bias.to(pending.scalar_type()) : pending;
      },
      x);
}

at::Tensor LinearImpl::product(const at::Tensor& x,
                               const std::optional<kernels::HiddenActivation>& activation,
                               const at::Tensor& own_bias) const {
  if (activation && !input_transform) {
    return kernels::linear_of_activation(x, *activation, weight, own_bias);
  }
  const auto activated = activation ? kernels::activate(x, *activation) : x;
  const auto input = input_transform ? input_transform(activated) : activated;
  return kernels::linear(input, weight, own_bias);
}

}  // namespace fovea::nn
