#include "fovea/kernels/linear/panel_products.h"

#include <ATen/ops/empty.h>

#include "fovea/kernels/cpu/panel_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/recorded_pass.h"
#include "fovea/kernels/row_views.h"

namespace fovea::kernels {
namespace {

cpu::PanelUnit unit_of(ProductPath path) {
  return path == ProductPath::kPanelsInTiles ? cpu::PanelUnit::kTiles : cpu::PanelUnit::kVectors;
}

cpu::Factor factor_of(const at::Tensor& x) {
  const bool is_transposed = x.stride(1) != 1;
  return {bits_of(x), x.stride(is_transposed ? 1 : 0), is_transposed};
}

// A second factor [K, N], and the tensor that holds it.
struct HeldFactor {
  at::Tensor values;
  cpu::SecondFactor factor;
};

HeldFactor second_factor_of(const at::Tensor& b) {
  auto values = with_dense_dim(b);
  const auto factor = factor_of(values);
  return {std::move(values), {.factor = factor}};
}

// weight: [N, K].
HeldFactor second_factor_of_weight(const at::Tensor& weight) {
  if (const auto* packed = kept_panels(weight)) return {{}, {.packed = packed}};
  return second_factor_of(own_weight(weight, at::kBFloat16).t());
}

// out: [M, N]; gelu: as out, or undefined.
void multiply(ProductPath path, const at::Tensor& a, const cpu::SecondFactor& second,
              const at::Tensor& bias, const at::Tensor& residual, const at::Tensor& out,
              const at::Tensor& gelu) {
  if (out.numel() == 0) return;
  const auto first = with_dense_dim(a);
  const int64_t N = out.size(1);
  const auto added = residual.defined() ? residual.contiguous() : residual;
  const cpu::Bfloat16Result result{.data = mutable_bits_of(out),
                                   .stride = N,
                                   .residual = added.defined() ? bits_of(added) : nullptr,
                                   .residual_stride = N,
                                   .gelu = gelu.defined() ? mutable_bits_of(gelu) : nullptr};
  const cpu::ProductSizes sizes{a.size(0), N, a.size(1)};
  run_kernel([unit = unit_of(path), first = factor_of(first), second, sizes,
              biases = FloatsOf(bias), result] {
    auto to = result;
    to.bias = biases.read();
    cpu::panel_product(unit, first, second, sizes, to);
  });
}

}  // namespace

at::Tensor product_of_panels(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                             const at::Tensor& bias, const at::Tensor& residual) {
  const auto out = at::empty({a.size(0), b.size(1)}, a.options());
  multiply(path, a, second_factor_of(b).factor, bias, residual, out, {});
  return out;
}

at::Tensor product_with_weight_panels(ProductPath path, const at::Tensor& x,
                                      const at::Tensor& weight, const at::Tensor& bias,
                                      const at::Tensor& residual) {
  const auto out = empty_product(x, weight);
  multiply(path, x, second_factor_of_weight(weight).factor, bias, residual, out, {});
  return out;
}

ProductAndGelu panel_product_and_gelu(ProductPath path, const at::Tensor& x,
                                      const at::Tensor& weight, const at::Tensor& bias,
                                      bool needs_product) {
  const auto second = second_factor_of_weight(weight);
  return filled_product_and_gelu(x, weight, needs_product, [&](const auto& out, const auto& gelu) {
    multiply(path, x, second.factor, bias, {}, out, gelu);
  });
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
        unit_of(path), factor_of(rows), {.factor = factor_of(columns)}, {M, N, K},
        cpu::FloatResult{.data = data,
                         .stride = N,
                         .row_sums = wants_row_sums ? sums.mutable_data_ptr<float>() : nullptr});
    return {out, sums};
  }
  cpu::panel_product(unit_of(path), factor_of(columns.t()), {.factor = factor_of(rows.t())},
                     {N, M, K}, cpu::FloatResult{.data = data, .stride = N, .is_transposed = true});
  return {out, {}};
}

}  // namespace fovea::kernels
