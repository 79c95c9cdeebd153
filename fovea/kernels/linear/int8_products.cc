#include "fovea/kernels/linear/int8_products.h"

#include "fovea/kernels/cpu/int8_product.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/recorded_pass.h"
#include "fovea/kernels/row_views.h"

namespace fovea::kernels {
namespace {

// gelu: as out, or undefined.
void multiply_by_int8(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& residual, const at::Tensor& out, const at::Tensor& gelu) {
  const auto rows = x.stride(1) == 1 ? x : x.contiguous();
  const auto added = residual.defined() ? residual.contiguous() : residual;
  in_own_type(x, [&](auto zero) {
    using Value = decltype(zero);
    const cpu::Int8Results<Value> results{
        .data = mutable_values_of<Value>(out),
        .stride = out.size(1),
        .residual = added.defined() ? values_of<Value>(added) : nullptr,
        .residual_stride = out.size(1),
        .gelu = gelu.defined() ? mutable_values_of<Value>(gelu) : nullptr};
    run_kernel([from = values_of<Value>(rows), stride = rows.stride(0), count = rows.size(0),
                codes = kept_int8(weight), biases = FloatsOf(bias), results] {
      cpu::int8_product(from, stride, count, *codes, biases.read(), results);
    });
  });
}

}  // namespace

cpu::Int8Form int8_form() {
  static const auto form = cpu::best_int8_form(kernel_paths().level(KernelOp::kLinear));
  return form;
}

at::Tensor product_with_int8_weight(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, const at::Tensor& residual) {
  const auto out = empty_product(x, weight);
  multiply_by_int8(x, weight, bias, residual, out, {});
  return out;
}

ProductAndGelu int8_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                     const at::Tensor& bias, bool needs_product) {
  return filled_product_and_gelu(x, weight, needs_product, [&](const auto& out, const auto& gelu) {
    multiply_by_int8(x, weight, bias, {}, out, gelu);
  });
}

}  // namespace fovea::kernels
