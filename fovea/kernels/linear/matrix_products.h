// The three products of a linear layer, by the fastest way there is for their shape, dtype and
// processor; on a CPU the same bits for any number of threads, but for the plain operations of
// libtorch. M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/linear/product_path.h"

namespace fovea::kernels {

// x, [rows, columns], or a copy of which one dim is dense.
at::Tensor with_dense_dim(const at::Tensor& x);

// x: [M, K], weight: [N, K], bias: [N] or undefined, residual: [M, N] or undefined, all of one
// dtype, but that the weight may be float32, of which its copy in that dtype is taken then
// (weight_copies.h) -> x weight^T + bias + residual: [M, N].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& residual = {});

// Whether a product's end can give what the activation makes of it as well: gelu_tanh on a GPU,
// GELU on strips and panels, with the bits of activate(), and of weights of 8-bit integers.
bool takes_gelu(const ProductCase& product, const HiddenActivation& activation);

struct ProductAndGelu {
  at::Tensor product, gelu;  // [M, N]
};

// x: [M, K], weight: [N, K] -> room for [M, N], of the dtype of x.
inline at::Tensor empty_product(const at::Tensor& x, const at::Tensor& weight) {
  return at::empty({x.size(0), weight.size(0)}, x.options());
}
// The same for both, which multiply(out, gelu) fills: out is gelu itself, and the product
// undefined, where the product is not needed.
template <class Multiply>
ProductAndGelu filled_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                       bool needs_product, const Multiply& multiply) {
  const auto gelu = empty_product(x, weight);
  const auto product = needs_product ? empty_product(x, weight) : at::Tensor();
  multiply(needs_product ? product : gelu, gelu);
  return {product, gelu};
}

// Both, for cases that takes_gelu; of what product() takes. Where the product by itself is not
// needed it may be undefined.
ProductAndGelu product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, bool needs_product);

// dy: [M, N], weight: [N, K] -> dy weight: [M, K].
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight);

struct WeightGradients {
  at::Tensor weight;  // dy^T x: [N, K]
  at::Tensor bias;    // the sum of dy's rows: [N] float32, or undefined
};

// dy: [M, N], x: [M, K] of its dtype, or a saved activation (saved_activation.h), which strips read
// as they pack, and other products as floats of some columns at a time. The gradient of the weight
// is float32 where bfloat16 is multiplied as float32, in panels, or by cuBLASLt. That of the bias
// comes where it is wanted and costs no pass over dy, as with cuBLASLt, and in panels for N >= K.
WeightGradients weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias);

}  // namespace fovea::kernels
