#include "fovea/kernels/linear/padded_products.h"

#include <ATen/ops/constant_pad_nd.h>

namespace fovea::kernels {
namespace {

// [rows, K] -> [rows, padded_width(K)].
at::Tensor with_padding(const at::Tensor& x) {
  return at::constant_pad_nd(x, {0, padded_width(x.size(1)) - x.size(1)});
}

// The first K of each row, as rows that lie one behind another.
at::Tensor without_padding(const at::Tensor& x, int64_t K) {
  return x.narrow(1, 0, K).contiguous();
}

}  // namespace

int64_t padded_width(int64_t K) { return (K + 15) / 16 * 16; }

at::Tensor padded_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& residual) {
  return product(with_padding(x), with_padding(weight), bias, residual);
}

at::Tensor padded_input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return without_padding(input_gradient(dy, with_padding(weight)), weight.size(1));
}

WeightGradients padded_weight_gradients(const at::Tensor& dy, const at::Tensor& x,
                                        bool wants_bias) {
  const auto padded = weight_gradients(dy, with_padding(x), wants_bias);
  return {without_padding(padded.weight, x.size(1)), padded.bias};
}

}  // namespace fovea::kernels
