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

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  return run(
      [this](const at::Tensor& given) {
        const auto input = input_transform ? input_transform(given) : given;
        if (!output_transform) return kernels::linear(input, weight, bias);
        const auto product = output_transform(kernels::linear(input, weight, at::Tensor()));
        return bias.defined() ? product + bias.to(product.scalar_type()) : product;
      },
      x);
}

}  // namespace fovea::nn
