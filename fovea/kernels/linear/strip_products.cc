#include "fovea/kernels/linear/strip_products.h"

#include <ATen/ops/empty.h>

#include "fovea/kernels/cpu/strip_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/recorded_pass.h"

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
  const auto gelu = factors.empty_result();
  const auto product = needs_product ? factors.empty_result() : at::Tensor();
  factors.multiply(needs_product ? product : gelu, {}, gelu);
  return {product, gelu};
}

}  // namespace fovea::kernels
