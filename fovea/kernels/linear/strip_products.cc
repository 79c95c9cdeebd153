#include "fovea/kernels/linear/strip_products.h"

#include <ATen/ops/empty.h>

#include "fovea/kernels/cpu/strip_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/recorded_pass.h"
#include "fovea/kernels/row_views.h"

namespace fovea::kernels {
namespace {

cpu::FloatFactor float_factor_of(const at::Tensor& x) {
  const bool is_transposed = x.stride(1) != 1;
  const auto stride = x.stride(is_transposed ? 1 : 0);
  if (x.scalar_type() == at::kBFloat16) return {nullptr, stride, is_transposed, bits_of(x)};
  return {x.const_data_ptr<float>(), stride, is_transposed};
}

// What is multiplied, where it lies.
class StripFactors {
 public:
  // a: [M, K], b: [K, N], bias: [N] or undefined. packed: what pack_strips makes of b, or null.
  StripFactors(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {},
               const float* packed = nullptr)
      : a_(with_dense_dim(a)),
        b_(with_dense_dim(b)),
        bias_(bias.defined() ? bias.contiguous() : bias),
        packed_(packed) {}

  at::Tensor empty_result() const { return at::empty({a_.size(0), b_.size(1)}, a_.options()); }

  // residual, gelu: as out, or undefined.
  void multiply(const at::Tensor& out, const at::Tensor& residual, const at::Tensor& gelu) const {
    const int64_t N = b_.size(1);
    const auto added = residual.defined() ? residual.contiguous() : residual;
    const cpu::StripResult result{
        .data = out.mutable_data_ptr<float>(),
        .stride = N,
        .bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr,
        .residual = added.defined() ? added.const_data_ptr<float>() : nullptr,
        .residual_stride = N,
        .gelu = gelu.defined() ? gelu.mutable_data_ptr<float>() : nullptr};
    const cpu::ProductSizes sizes{a_.size(0), N, a_.size(1)};
    run_kernel([a = float_factor_of(a_), b = float_factor_of(b_), packed = packed_, sizes, result] {
      cpu::strip_product(a, b, packed, sizes, result);
    });
  }

 private:
  at::Tensor a_, b_, bias_;
  const float* packed_;
};

// x: [M, K], weight: [N, K], out: [M, N]; gelu: as out, or undefined.
void multiply_rounded(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& residual, const at::Tensor& out, const at::Tensor& gelu) {
  const auto rows = x.stride(1) == 1 ? x : x.contiguous();
  const auto added = residual.defined() ? residual.contiguous() : residual;
  const int64_t N = weight.size(0);
  const cpu::Bfloat16Result result{.data = mutable_bits_of(out),
                                   .stride = N,
                                   .residual = added.defined() ? bits_of(added) : nullptr,
                                   .residual_stride = N,
                                   .gelu = gelu.defined() ? mutable_bits_of(gelu) : nullptr};
  const cpu::ProductSizes sizes{x.size(0), N, x.size(1)};
  run_kernel([bits = bits_of(rows), stride = rows.stride(0), packed = kept_rounded_strips(weight),
              sizes, biases = FloatsOf(bias), result] {
    auto to = result;
    to.bias = biases.read();
    cpu::strip_product(bits, stride, packed, sizes, to);
  });
}

}  // namespace

at::Tensor product_of_strips(const at::Tensor& a, const at::Tensor& b) {
  const StripFactors factors(a, b);
  const auto out = factors.empty_result();
  factors.multiply(out, {}, {});
  return out;
}

at::Tensor product_with_weight_strips(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, const at::Tensor& residual) {
  const StripFactors factors(x, weight.t(), bias, kept_strips(weight));
  const auto out = factors.empty_result();
  factors.multiply(out, residual, {});
  return out;
}

ProductAndGelu strip_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, bool needs_product) {
  const StripFactors factors(x, weight.t(), bias, kept_strips(weight));
  return filled_product_and_gelu(x, weight, needs_product, [&](const auto& out, const auto& gelu) {
    factors.multiply(out, {}, gelu);
  });
}

at::Tensor product_with_rounded_strips(const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& bias, const at::Tensor& residual) {
  const auto out = empty_product(x, weight);
  multiply_rounded(x, weight, bias, residual, out, {});
  return out;
}

ProductAndGelu rounded_strip_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                              const at::Tensor& bias, bool needs_product) {
  return filled_product_and_gelu(x, weight, needs_product, [&](const auto& out, const auto& gelu) {
    multiply_rounded(x, weight, bias, {}, out, gelu);
  });
}

}  // namespace fovea::kernels
