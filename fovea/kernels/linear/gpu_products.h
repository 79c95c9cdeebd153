// The products of matrix_products.h on a GPU with Fovea's module: by cuBLASLt, which does at a
// product's end what would be a pass over memory of its own.
//
// M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/linear/matrix_products.h"

namespace fovea::kernels {

// Where the products of a linear layer run.
enum class ProductPath {
  kPlain,   // the CPU's ways, or libtorch's
  kFused,   // cuBLASLt
  kPadded,  // padded_products.h, whose products are kFused
};

struct ProductCase {
  at::ScalarType dtype;
  bool has_kernels;  // on a GPU, with the module
  int64_t M, N, K;
  bool is_aligned;  // what the product reads begins at multiples of 16 bytes
};

// Tensor cores read 16 bytes at a time, so rows of 16-bit values whose length is no multiple of 8
// fall back to kernels of a third of the speed (K = 588 of 14 x 14 RGB patches: 130 against 37 us
// on an H100); a copy with longer rows costs less, but for rows of a few values.
ProductPath product_path(const ProductCase& product);

// Whether the gradient through gelu_tanh can be taken at the end of input_gradient().
bool takes_gelu_gradient(const ProductCase& product, const HiddenActivation& activation);

// The case of dy [M, N] and a weight of K columns.
ProductCase case_of_gradient(const at::Tensor& dy, int64_t K);

// Whether a product's end can give gelu_tanh of it as well.
bool takes_gelu(const ProductCase& product, const HiddenActivation& activation);

// The case of x [M, K] and N columns of the result.
ProductCase case_of_input(const at::Tensor& x, int64_t N);

// As in matrix_products.h; nothing, or undefined: kPlain. Bits are the same each time.
at::Tensor gpu_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& residual);
at::Tensor gpu_input_gradient(const at::Tensor& dy, const at::Tensor& weight);
std::optional<WeightGradients> gpu_weight_gradients(const at::Tensor& dy, const at::Tensor& x,
                                                    bool wants_bias);

struct ProductAndGelu {
  at::Tensor product, gelu;  // [M, N]
};
// The product and its gelu_tanh, for cases that takes_gelu.
ProductAndGelu gpu_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias);

// The gradient of x, of which gelu_tanh(x) [M, K] was multiplied by the weight, from dy [M, N]; for
// cases that takes_gelu_gradient. What the product gives is not rounded before.
at::Tensor input_gradient_through_gelu(const at::Tensor& dy, const at::Tensor& weight,
                                       const at::Tensor& x);

}  // namespace fovea::kernels
