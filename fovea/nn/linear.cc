#include "fovea/nn/linear.h"

#include <ATen/ops/empty.h>

namespace fovea::nn {

LinearImpl::LinearImpl(int64_t in_features, int64_t out_features, bool has_bias,
                       at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  weight = register_parameter("weight", at::empty({out_features, in_features}, options));
  if (has_bias) bias = register_parameter("bias", at::empty({out_features}, options));
}

at::Tensor LinearImpl::forward(const kernels::LinearInput& x,
                               const std::optional<kernels::HiddenActivation>& activation,
                               const at::Tensor& residual) const {
  return run_onto(
      residual,
      [this, activation](const kernels::LinearInput& given, const at::Tensor& added) {
        if (!output_transform) return product(given, activation, bias, added);
        const auto pending = output_transform(product(given, activation, {}, {}));
        return onto(added, bias.defined() ? pending + bias.to(pending.scalar_type()) : pending);
      },
      x);
}

bool LinearImpl::is_plain() const {
  const bool is_kernel = !training_product || !is_training();
  return is_kernel && !input_transform && !output_transform && !is_watched();
}

at::Tensor LinearImpl::product(const kernels::LinearInput& x,
                               std::optional<kernels::HiddenActivation> activation,
                               const at::Tensor& own_bias, const at::Tensor& residual) const {
  auto input = x;
  if (input_transform) {
    input = input_transform(activation ? kernels::activate(x.x, *activation) : x.x);
    activation.reset();
  }
  if (training_product && is_training()) {
    return onto(residual, training_product(input.x, activation, weight, own_bias));
  }
  return activation
             ? kernels::linear_of_activation({input.x, {}}, *activation, weight, own_bias, residual)
             : kernels::linear(input, weight, own_bias, residual);
}

}  // namespace fovea::nn
