// The operators of linear layers on CUDA: products by cuBLASLt with what surrounds them done at
// their end, and GELU. ../gpu_products.h and ../activation.cc have checked what they get: tensors
// are contiguous, of one dtype, and none is empty.
#include <ATen/Context.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <torch/library.h>

#include <tuple>

#include "fovea/kernels/cuda/gelu.h"
#include "fovea/kernels/cuda/lt_algorithm.h"
#include "fovea/kernels/cuda/lt_product.h"
#include "fovea/kernels/cuda/operators.h"

// M rows, K input width, N output width.
namespace fovea::kernels::cuda::operators {
namespace {

using Tensors2 = std::tuple<at::Tensor, at::Tensor>;
using Tensors3 = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

LtCall as_allowed(LtCall call) {
  call.may_use_tf32 = at::globalContext().allowTF32CuBLAS();
  return call;
}

// x: [M, K], weight: [N, K], bias: [N], residual: [M, N] -> [M, N].
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                          const OptionalTensor& residual) {
  const Launch launch(x);
  const LinearShape shape{x.size(0), x.size(1), weight.size(0), element_type(x)};
  const auto y = at::empty({shape.M, shape.N}, x.options());
  const auto call = lt_product(shape, bias.has_value(), residual.has_value());
  const bool is_done =
      run_lt_call(as_allowed(call), {.a = weight.const_data_ptr(),
                                     .b = x.const_data_ptr(),
                                     .d = y.mutable_data_ptr(),
                                     .c = residual ? residual->const_data_ptr() : nullptr,
                                     .bias = bias ? bias->data_ptr() : nullptr});
  if (is_done) return y;
  const auto product = at::linear(x, weight, bias);
  return residual ? at::add(product, *residual) : product;
}

// x: [M, F] -> as x.
at::Tensor gelu(const at::Tensor& x, bool is_tanh) {
  const Launch launch(x);
  const auto y = at::empty_like(x);
  gelu_forward(x.const_data_ptr(), {x.size(0), x.size(1), element_type(x), is_tanh},
               y.mutable_data_ptr(), launch.stream());
  launch.check();
  return y;
}

// dy, x: [M, F] -> dx, y where it is wanted, and the sums of dx over rows [F] where they are.
Tensors3 gelu_backward(const at::Tensor& dy, const at::Tensor& x, bool is_tanh, bool with_output,
                       bool with_sums) {
  const Launch launch(x);
  const auto dx = at::empty_like(x), y = with_output ? at::empty_like(x) : at::Tensor();
  const auto parts =
      with_sums ? at::empty({parts_of_rows(x.size(0)), x.size(1)}, x.options().dtype(at::kFloat))
                : at::Tensor();
  cuda::gelu_backward({.dy = dy.const_data_ptr(),
                       .x = x.const_data_ptr(),
                       .dx = dx.mutable_data_ptr(),
                       .y = with_output ? y.mutable_data_ptr() : nullptr,
                       .dx_parts = with_sums ? parts.mutable_data_ptr<float>() : nullptr},
                      {x.size(0), x.size(1), element_type(x), is_tanh}, launch.stream());
  launch.check();
  return {dx, y, with_sums ? sum_rows(parts) : at::Tensor()};
}

// x: [M, K], weight: [N, K], bias: [N] -> [M, N], and gelu_tanh of that.
Tensors2 linear_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                 const OptionalTensor& bias) {
  const Launch launch(x);
  const LinearShape shape{x.size(0), x.size(1), weight.size(0), element_type(x)};
  const auto y = at::empty({shape.M, shape.N}, x.options()), activated = at::empty_like(y);
  const bool is_done = run_lt_call(as_allowed(lt_product_and_gelu(shape, bias.has_value())),
                                   {.a = weight.const_data_ptr(),
                                    .b = x.const_data_ptr(),
                                    .d = activated.mutable_data_ptr(),
                                    .bias = bias ? bias->data_ptr() : nullptr,
                                    .other = y.mutable_data_ptr()});
  if (is_done) return {y, activated};
  const auto product = linear_product(x, weight, bias, std::nullopt);
  return {product, gelu(product, /*is_tanh=*/true)};
}

// dy: [M, N], weight: [N, K], gelu_input: [M, K], what gelu_tanh was given -> [M, K].
at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                 const OptionalTensor& gelu_input) {
  const Launch launch(dy);
  const LinearShape shape{dy.size(0), weight.size(1), weight.size(0), element_type(dy)};
  const auto dx = at::empty({shape.M, shape.K}, dy.options());
  const LtOperands operands{.a = weight.const_data_ptr(),
                            .b = dy.const_data_ptr(),
                            .d = dx.mutable_data_ptr(),
                            .other = gelu_input ? gelu_input->data_ptr() : nullptr};
  const auto call = as_allowed(lt_input_gradient(shape, gelu_input.has_value()));
  if (run_lt_call(call, operands)) return dx;
  const auto product = at::matmul(dy, weight);
  if (!gelu_input) return product;
  return std::get<0>(gelu_backward(product, *gelu_input, /*is_tanh=*/true, /*with_output=*/false,
                                   /*with_sums=*/false));
}

// dy: [M, N], x: [M, K], d: [N, K] float32, becomes dy^T x, or d + dy^T x where it `adds`. dbias:
// [N] float32 or undefined, becomes the sums of dy's rows.
void weight_gradient_to(const at::Tensor& d, bool adds, at::Tensor& dbias, const at::Tensor& dy,
                        const at::Tensor& x) {
  const LinearShape shape{dy.size(0), x.size(1), dy.size(1), element_type(dy)};
  LtOperands operands{.a = x.const_data_ptr(),
                      .b = dy.const_data_ptr(),
                      .d = d.mutable_data_ptr(),
                      .c = adds ? d.const_data_ptr() : nullptr};
  if (dbias.defined()) {
    operands.bias = dbias.mutable_data_ptr();
    if (run_lt_call(as_allowed(lt_weight_gradient(shape, true, adds)), operands)) return;
    operands.bias = nullptr;
    dbias = sum_rows(dy);
  }
  if (run_lt_call(as_allowed(lt_weight_gradient(shape, false, adds)), operands)) return;
  const auto product = at::matmul(dy.t(), x);
  at::Tensor to = d;
  adds ? to.add_(product) : to.copy_(product);
}

at::Tensor sums_of(const at::Tensor& dy, bool are_wanted) {
  return are_wanted ? at::empty({dy.size(1)}, dy.options().dtype(at::kFloat)) : at::Tensor();
}

// dy: [M, N], x: [M, K] -> [N, K] float32, and [N] float32 where it is wanted.
Tensors2 linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool with_bias) {
  const Launch launch(dy);
  const auto dweight = at::empty({dy.size(1), x.size(1)}, dy.options().dtype(at::kFloat));
  auto dbias = sums_of(dy, with_bias);
  weight_gradient_to(dweight, /*adds=*/false, dbias, dy, x);
  return {dweight, dbias};
}

// The same, added to sum [N, K] float32.
at::Tensor linear_add_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                      const at::Tensor& sum, bool with_bias) {
  const Launch launch(dy);
  auto dbias = sums_of(dy, with_bias);
  weight_gradient_to(sum, /*adds=*/true, dbias, dy, x);
  return dbias;
}

// Whether the current stream of the device of x records a graph instead of running.
bool is_capturing(const at::Tensor& x) {
  const Launch launch(x);
  return cuda::is_capturing();
}

}  // namespace

TORCH_LIBRARY_IMPL(fovea, CUDA, m) {
  m.impl("linear_product", linear_product);
  m.impl("linear_product_and_gelu", linear_product_and_gelu);
  m.impl("linear_input_gradient", linear_input_gradient);
  m.impl("linear_weight_gradient", linear_weight_gradient);
  m.impl("linear_add_weight_gradient", linear_add_weight_gradient);
  m.impl("gelu", gelu);
  m.impl("gelu_backward", gelu_backward);
  m.impl("is_capturing", is_capturing);
}

}  // namespace fovea::kernels::cuda::operators
