#include "fovea/kernels/linear/matrix_products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/cpu_products.h"
#include "fovea/kernels/linear/gpu_products.h"
#include "fovea/kernels/linear/int8_products.h"
#include "fovea/kernels/linear/padded_products.h"
#include "fovea/kernels/linear/panel_products.h"
#include "fovea/kernels/linear/product_path.h"
#include "fovea/kernels/linear/split_products.h"
#include "fovea/kernels/linear/strip_products.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/saved_activation.h"

// M rows (all leading dims together), K input width, N output width.
namespace fovea::kernels {
namespace {

at::Tensor as_float(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

[[noreturn]] void refuse_path(ProductPath path) {
  fail("product path {} is not in the table", static_cast<int>(path));
}

at::Tensor plus(const at::Tensor& y, const at::Tensor& residual) {
  return residual.defined() ? y.add_(residual) : y;
}

// a: [M, K], b: [K, N], float32 -> a b, by a path of float32 on a CPU.
at::Tensor float_matmul(ProductPath path, const at::Tensor& a, const at::Tensor& b) {
  switch (path) {
    case ProductPath::kPlain:
      return at::matmul(a, b);
    case ProductPath::kStrips:
      return product_of_strips(a, b);
    default:
      return float_product(path, a, b.t(), {});
  }
}

// The same by parts of bfloat16. See Note [Split products].
at::Tensor split_matmul(const at::Tensor& a, const at::Tensor& b) {
  const auto path = path_of_parts(case_of_input(a, b.size(1)));
  const auto first = split_factor(a, FactorPlace::kFirst, /*depth_dim=*/1);
  const auto second = split_factor(b, FactorPlace::kSecond, /*depth_dim=*/0);
  if (is_of_panels(path)) return float_product_of_panels(path, first, second).product;
  return float_matmul(path, as_float(first), as_float(second));
}

}  // namespace

at::Tensor with_dense_dim(const at::Tensor& x) {
  return x.stride(1) == 1 || x.stride(0) == 1 ? x : x.contiguous();
}

at::Tensor product(const at::Tensor& x, const at::Tensor& given_weight, const at::Tensor& bias,
                   const at::Tensor& residual) {
  const auto path = product_path(case_of_weight(x, given_weight));
  if (is_of_panels(path)) return product_with_weight_panels(path, x, given_weight, bias, residual);
  if (path == ProductPath::kInt8) return product_with_int8_weight(x, given_weight, bias, residual);
  if (path == ProductPath::kRoundedStrips) {
    return product_with_rounded_strips(x, given_weight, bias, residual);
  }
  const auto weight = own_weight(given_weight, x.scalar_type());
  switch (path) {
    case ProductPath::kPlain:
    case ProductPath::kFewRows:
      return plus(at::linear(x, weight, bias), residual);
    case ProductPath::kFused:
      return gpu_product(x, weight, bias, residual);
    case ProductPath::kPadded:
      return padded_product(x, weight, bias, residual);
    case ProductPath::kAsFloat:
      return plus(product(as_float(x), as_float(weight), as_float(bias)).to(at::kBFloat16),
                  residual);
    case ProductPath::kStrips:
      return product_with_weight_strips(x, weight, bias, residual);
    case ProductPath::kBlas:
    case ProductPath::kOneDnn:
    case ProductPath::kMkl:
      return plus(float_product(path, x, weight, bias), residual);
    case ProductPath::kSplit:
      return plus(plus(split_matmul(x, weight.t()), bias), residual);
    case ProductPath::kPanels:
    case ProductPath::kPanelsInTiles:
    case ProductPath::kRoundedStrips:
    case ProductPath::kInt8:
      break;
  }
  refuse_path(path);
}

bool takes_gelu(const ProductCase& product, const HiddenActivation& activation) {
  const auto path = product_path(product);
  const bool is_gelu = activation.kind == Activation::kGelu && !activation.is_gated;
  if (path == ProductPath::kInt8) return is_gelu;
  if (path == ProductPath::kRoundedStrips) return is_gelu && has_own_gelu(at::kFloat);
  const bool is_own = path == ProductPath::kStrips || is_of_panels(path);
  if (is_own) return is_gelu && has_own_gelu(product.dtype);
  return takes_gpu_gelu(product, activation);
}

ProductAndGelu product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, bool needs_product) {
  const auto path = product_path(case_of_weight(x, weight));
  switch (path) {
    case ProductPath::kPanels:
    case ProductPath::kPanelsInTiles:
      return panel_product_and_gelu(path, x, weight, bias, needs_product);
    case ProductPath::kStrips:
      return strip_product_and_gelu(x, weight, bias, needs_product);
    case ProductPath::kRoundedStrips:
      return rounded_strip_product_and_gelu(x, weight, bias, needs_product);
    case ProductPath::kInt8:
      return int8_product_and_gelu(x, weight, bias, needs_product);
    default:
      return gpu_product_and_gelu(x, own_weight(weight, x.scalar_type()), bias);
  }
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  const auto path = product_path(case_of_gradient(dy, weight.size(1)));
  switch (path) {
    case ProductPath::kFewRows:
      return at::matmul(dy, weight);
    case ProductPath::kFused:
      return gpu_input_gradient(dy, weight);
    case ProductPath::kPadded:
      return padded_input_gradient(dy, weight);
    case ProductPath::kAsFloat:
      return input_gradient(as_float(dy), as_float(weight)).to(at::kBFloat16);
    case ProductPath::kPanels:
    case ProductPath::kPanelsInTiles:
      return product_of_panels(path, dy, weight, {});
    case ProductPath::kPlain:
    case ProductPath::kStrips:
    case ProductPath::kBlas:
    case ProductPath::kOneDnn:
    case ProductPath::kMkl:
      return float_matmul(path, dy, weight);
    case ProductPath::kSplit:
      return split_matmul(dy, weight);
    case ProductPath::kRoundedStrips:
    case ProductPath::kInt8:  // of no gradient
      break;
  }
  refuse_path(path);
}

namespace {

// The weight's by columns, each piece of x in the dtype of dy for the time that it takes.
WeightGradients gradients_in_pieces(const at::Tensor& dy, const at::Tensor& x, bool wants_bias) {
  constexpr int64_t kColumns = 768;
  const int64_t K = x.size(1);
  WeightGradients whole{at::empty({dy.size(1), K}, dy.options()), {}};
  for (int64_t k = 0; k < K; k += kColumns) {
    const auto count = std::min(kColumns, K - k);
    const auto piece = weight_gradients(
        dy, read_activation(x.narrow(1, k, count), dy.scalar_type()), wants_bias && k == 0);
    whole.weight.narrow(1, k, count).copy_(piece.weight);
    if (k == 0) whole.bias = piece.bias;
  }
  return whole;
}

}  // namespace

WeightGradients weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias) {
  auto product = case_of_input(x, dy.size(1));
  product.dtype = dy.scalar_type();
  const auto path = product_path(product);
  const bool is_read_on_the_way = path == ProductPath::kStrips && x.stride(1) == 1;
  if (x.scalar_type() != dy.scalar_type() && !is_read_on_the_way) {
    return gradients_in_pieces(dy, x, wants_bias);
  }
  switch (path) {
    case ProductPath::kPlain:
      return {at::matmul(dy.t(), x), {}};
    case ProductPath::kFused:
      return gpu_weight_gradients(dy, x, wants_bias);
    case ProductPath::kPadded:
      return padded_weight_gradients(dy, x, wants_bias);
    case ProductPath::kAsFloat:
      return weight_gradients(as_float(dy), as_float(x), wants_bias);
    case ProductPath::kPanels:
    case ProductPath::kPanelsInTiles: {
      const auto [weight, bias] = float_product_of_panels(path, dy.t(), x, wants_bias);
      return {weight, bias};
    }
    case ProductPath::kStrips:
      return {product_of_strips(dy.t(), x), {}};
    case ProductPath::kFewRows:
    case ProductPath::kBlas:
    case ProductPath::kOneDnn:
    case ProductPath::kMkl:
      return {cpu_weight_gradient(path, dy, x), {}};
    case ProductPath::kSplit:
      return {split_matmul(dy.t(), x), {}};
    case ProductPath::kRoundedStrips:
    case ProductPath::kInt8:
      break;
  }
  refuse_path(path);
}

}  // namespace fovea::kernels
