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

// The larger side is the rows of the product: its other factor is packed whole. Sums of rows come
// where a is the first factor.
FloatPanelProduct float_product_of_panels(ProductPath path, const at::Tensor& a,
                                          const at::Tensor& b, bool wants_row_sums) {
  const auto rows = with_dense_dim(a), columns = with_dense_dim(b);
  const int64_t M = a.size(0), K = a.size(1), N = b.size(1);
  const auto options = a.options().dtype(at::kFloat);
  const auto out = at::empty({M, N}, options);
  if (out.numel() == 0) return {out, {}};
  auto* data = out.mutable_data_ptr<float>();
  if (M >= N) {
    const auto sums = wants_row_sums ? at::empty({M}, options) : at::Tensor();
    cpu::panel_product(
        unit_of(path), factor_of(rows), factor_of(columns), {M, N, K},
        cpu::FloatResult{.data = data,
                         .stride = N,
                         .row_sums = wants_row_sums ? sums.mutable_data_ptr<float>() : nullptr});
    return {out, sums};
  }
  cpu::panel_product(unit_of(path), factor_of(columns.t()), factor_of(rows.t()), {N, M, K},
                     cpu::FloatResult{.data = data, .stride = N, .is_transposed = true});
  return {out, {}};
}

}  // namespace fovea::kernels
