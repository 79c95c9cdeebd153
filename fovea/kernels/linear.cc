#include "fovea/kernels/linear.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/bfloat16.h"
#include "fovea/kernels/reduce.h"

// M rows (all leading dims together), K input width, N output width.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using LinearPointwise = at::Tensor(const at::Tensor&, const at::Tensor&,
                                   const std::optional<at::Tensor>&, std::string_view,
                                   c10::List<std::optional<at::Scalar>>,
                                   std::optional<std::string_view>);

// oneDNN's product, reached through the dispatcher: for float32 it runs at about twice the rate of
// the BLAS that at::linear picks (benchmarks/results). a: [M, K], b: [N, K], any strides -> a b^T:
// [M, N].
at::Tensor onednn_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
                             .typed<LinearPointwise>();
  return op.call(a, b, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, "none",
                 c10::List<std::optional<at::Scalar>>(), "");
}

bool onednn_is_faster(const at::Tensor& x) {
  return x.is_cpu() && x.scalar_type() == at::kFloat && x.numel() > 0;
}

// x: [M, K], weight: [N, K] -> [M, N].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (is_multiplied_as_float(x)) {
    const auto wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
    return product(x.to(at::kFloat), weight.to(at::kFloat), wide_bias).to(at::kBFloat16);
  }
  return onednn_is_faster(x) ? onednn_product(x, weight, bias) : at::linear(x, weight, bias);
}

// dy: [M, N], weight: [N, K] -> dy weight: [M, K].
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  if (is_multiplied_as_float(dy)) {
    return input_gradient(dy.to(at::kFloat), weight.to(at::kFloat)).to(at::kBFloat16);
  }
  return onednn_is_faster(dy) ? onednn_product(dy, weight.t(), {}) : at::matmul(dy, weight);
}

// dy: [M, N], x: [M, K] -> dy^T x: [N, K]. oneDNN copies its first operand into rows, so the
// smaller one goes there.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) {
  if (is_multiplied_as_float(dy)) return weight_gradient(dy.to(at::kFloat), x.to(at::kFloat));
  if (!onednn_is_faster(dy)) return at::matmul(dy.t(), x);
  return dy.size(1) <= x.size(1) ? onednn_product(dy.t(), x.t(), {})
                                 : onednn_product(x.t(), dy.t(), {}).t();
}

// [..., K] -> [M, K]; not by -1, which is ambiguous for an empty tensor.
at::Tensor as_rows(const at::Tensor& x) {
  return x.reshape({c10::multiply_integers(x.sizes().slice(0, x.dim() - 1)), x.size(-1)});
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  // The bias is optional because Function does not take undefined tensors.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    const auto rows = as_rows(x);  // [M, K]
    ctx->save_for_backward({rows, weight});
    if (bias) ctx->saved_data["bias_dtype"] = bias->scalar_type();
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return product(rows, weight.to(x.scalar_type()),
                   bias ? bias->to(x.scalar_type()) : at::Tensor())
        .view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];       // [M, K]
    const auto& weight = saved[1];  // [N, K]
    auto input_shape = gradients[0].sizes().vec();
    input_shape.back() = weight.size(1);
    const auto dy = as_rows(gradients[0]).contiguous();  // [M, N]
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = input_gradient(dy, weight.to(dy.scalar_type())).view(input_shape);
    }
    if (ctx->needs_input_grad(1)) result[1] = weight_gradient(dy, x).to(weight.scalar_type());
    const auto bias_dtype = ctx->saved_data.find("bias_dtype");
    if (bias_dtype != ctx->saved_data.end() && ctx->needs_input_grad(2)) {
      result[2] = sum_rows(dy).to(bias_dtype->second.toScalarType());
    }
    return result;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  FOVEA_CHECK(weight.dim() == 2 && x.dim() >= 1 && x.size(-1) == weight.size(1),
              "linear: x of width {} against a weight of {} x {}; expected equal widths",
              x.dim() ? x.size(-1) : 0, weight.dim() ? weight.size(0) : 0,
              weight.dim() == 2 ? weight.size(1) : 0);
  if (x.is_meta()) {
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return at::empty(shape, x.options());
  }
  return LinearFunction::apply(x, weight,
                               bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt);
}

}  // namespace fovea::kernels
