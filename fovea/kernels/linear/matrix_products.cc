#include "fovea/kernels/linear/matrix_products.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/panel_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/cpu_products.h"
#include "fovea/kernels/linear/gpu_products.h"
#include "fovea/kernels/linear/int8_products.h"
#include "fovea/kernels/linear/padded_products.h"
#include "fovea/kernels/linear/product_path.h"
#include "fovea/kernels/linear/strip_products.h"
#include "fovea/kernels/saved_activation.h"

// M rows (all leading dims together), K input width, N output width.
namespace fovea::kernels {
namespace {

cpu::PanelUnit unit_of(ProductPath path) {
  return path == ProductPath::kPanelsInTiles ? cpu::PanelUnit::kTiles : cpu::PanelUnit::kVectors;
}

at::Tensor as_float(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; }

cpu::Factor factor_of(const at::Tensor& x) {
  const bool is_transposed = x.stride(1) != 1;
  return {bits_of(x), x.stride(is_transposed ? 1 : 0), is_transposed};
}

// a: [M, K], b: [K, N] -> a b + bias: [M, N] bfloat16, and that + residual: [M, N].
at::Tensor product_of_panels(cpu::PanelUnit unit, const at::Tensor& a, const at::Tensor& b,
                             const at::Tensor& bias, const at::Tensor& residual = {}) {
  const auto first = with_dense_dim(a), second = with_dense_dim(b);
  const int64_t M = a.size(0), N = b.size(1);
  auto out = at::empty({M, N}, a.options());
  if (out.numel() == 0) return out;
  const auto wide_bias = bias.defined() ? bias.to(at::kFloat).contiguous() : bias;
  const auto added = residual.defined() ? residual.contiguous() : residual;
  cpu::panel_product(
      unit, factor_of(first), factor_of(second), {M, N, a.size(1)},
      cpu::Bfloat16Result{.data = mutable_bits_of(out),
                          .stride = N,
                          .bias = bias.defined() ? wide_bias.const_data_ptr<float>() : nullptr,
                          .residual = added.defined() ? bits_of(added) : nullptr,
                          .residual_stride = N});
  return out;
}

// dy: [M, N], x: [M, K] -> dy^T x: [N, K] float32. The larger side is the rows of the product: its
// other factor is packed whole. The gradient of the bias comes where dy is the first factor.
WeightGradients weight_gradients_of_panels(cpu::PanelUnit unit, const at::Tensor& dy,
                                           const at::Tensor& x, bool wants_bias) {
  const auto rows = with_dense_dim(dy), inputs = with_dense_dim(x);
  const int64_t M = dy.size(0), N = dy.size(1), K = x.size(1);
  const auto options = dy.options().dtype(at::kFloat);
  const auto out = at::empty({N, K}, options);
  if (out.numel() == 0) return {out, {}};
  auto* data = out.mutable_data_ptr<float>();
  if (N >= K) {
    const auto bias = wants_bias ? at::empty({N}, options) : at::Tensor();
    cpu::panel_product(
        unit, factor_of(rows.t()), factor_of(inputs), {N, K, M},
        cpu::FloatResult{.data = data,
                         .stride = K,
                         .row_sums = wants_bias ? bias.mutable_data_ptr<float>() : nullptr});
    return {out, bias};
  }
  cpu::panel_product(unit, factor_of(inputs.t()), factor_of(rows), {K, N, M},
                     cpu::FloatResult{.data = data, .stride = K, .is_transposed = true});
  return {out, {}};
}

[[noreturn]] void refuse_path(ProductPath path) {
  fail("product path {} is not in the table", static_cast<int>(path));
}

at::Tensor plus(const at::Tensor& y, const at::Tensor& residual) {
  return residual.defined() ? y.add_(residual) : y;
}

}  // namespace

at::Tensor with_dense_dim(const at::Tensor& x) {
  return x.stride(1) == 1 || x.stride(0) == 1 ? x : x.contiguous();
}

at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& residual) {
  const auto path = product_path(case_of_weight(x, weight));
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
    case ProductPath::kPanels:
    case ProductPath::kPanelsInTiles:
      return product_of_panels(unit_of(path), x, weight.t(), bias, residual);
    case ProductPath::kStrips:
      return product_with_weight_strips(x, weight, bias, residual);
    case ProductPath::kBlas:
    case ProductPath::kOneDnn:
    case ProductPath::kMkl:
      return plus(float_product(path, x, weight, bias), residual);
    case ProductPath::kInt8:
      return product_with_int8_weight(x, weight, bias, residual);
  }
  refuse_path(path);
}

bool takes_gelu(const ProductCase& product, const HiddenActivation& activation) {
  const auto path = product_path(product);
  const bool is_gelu = activation.kind == Activation::kGelu && !activation.is_gated;
  if (path == ProductPath::kInt8) return is_gelu;
  if (path == ProductPath::kStrips) return is_gelu && has_own_gelu(at::kFloat);
  return takes_gpu_gelu(product, activation);
}

ProductAndGelu product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& bias, bool needs_product) {
  switch (product_path(case_of_weight(x, weight))) {
    case ProductPath::kStrips:
      return strip_product_and_gelu(x, weight, bias, needs_product);
    case ProductPath::kInt8:
      return int8_product_and_gelu(x, weight, bias, needs_product);
    default:
      return gpu_product_and_gelu(x, weight, bias);
  }
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  const auto path = product_path(case_of_gradient(dy, weight.size(1)));
  switch (path) {
    case ProductPath::kPlain:
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
      return product_of_panels(unit_of(path), dy, weight, {});
    case ProductPath::kStrips:
      return product_of_strips(dy, weight);
    case ProductPath::kBlas:
    case ProductPath::kOneDnn:
    case ProductPath::kMkl:
      return float_product(path, dy, weight.t(), {});
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
    case ProductPath::kPanelsInTiles:
      return weight_gradients_of_panels(unit_of(path), dy, x, wants_bias);
    case ProductPath::kStrips:
      return {product_of_strips(dy.t(), x), {}};
    case ProductPath::kFewRows:
    case ProductPath::kBlas:
    case ProductPath::kOneDnn:
    case ProductPath::kMkl:
      return {cpu_weight_gradient(path, dy, x), {}};
    case ProductPath::kInt8:
      break;
  }
  refuse_path(path);
}

}  // namespace fovea::kernels
