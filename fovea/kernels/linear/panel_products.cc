#include "fovea/kernels/linear/panel_products.h"

#include <ATen/ops/empty.h>

#include "fovea/kernels/cpu/panel_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"

namespace fovea::kernels {
namespace {

cpu::PanelUnit unit_of(ProductPath path) {
  return path == ProductPath::kPanelsInTiles ? cpu::PanelUnit::kTiles : cpu::PanelUnit::kVectors;
}

cpu::Factor factor_of(const at::Tensor& x) {
  const bool is_transposed = x.stride(1) != 1;
  return {bits_of(x), x.stride(is_transposed ? 1 : 0), is_transposed};
}

}  // namespace

at::Tensor product_of_panels(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                             const at::Tensor& bias, const at::Tensor& residual) {
  const auto first = with_dense_dim(a), second = with_dense_dim(b);
  const int64_t M = a.size(0), N = b.size(1);
  auto out = at::empty({M, N}, a.options());
  if (out.numel() == 0) return out;
  const auto wide_bias = bias.defined() ? bias.to(at::kFloat).contiguous() : bias;
  const auto added = residual.defined() ? residual.contiguous() : residual;
  cpu::panel_product(
      unit_of(path), factor_of(first), factor_of(second), {M, N, a.size(1)},
      cpu::Bfloat16Result{.data = mutable_bits_of(out),
                          .stride = N,
                          .bias = bias.defined() ? wide_bias.const_data_ptr<float>() : nullptr,
                          .residual = added.defined() ? bits_of(added) : nullptr,
                          .residual_stride = N});
  return out;
}

// The larger side is the rows of the product: its other factor is packed whole. The gradient of the
// bias comes where dy is the first factor.
WeightGradients weight_gradients_of_panels(ProductPath path, const at::Tensor& dy,
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
        unit_of(path), factor_of(rows.t()), factor_of(inputs), {N, K, M},
        cpu::FloatResult{.data = data,
                         .stride = K,
                         .row_sums = wants_bias ? bias.mutable_data_ptr<float>() : nullptr});
    return {out, bias};
  }
  cpu::panel_product(unit_of(path), factor_of(inputs.t()), factor_of(rows), {K, N, M},
                     cpu::FloatResult{.data = data, .stride = K, .is_transposed = true});
  return {out, {}};
}

}  // namespace fovea::kernels
