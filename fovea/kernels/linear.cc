#include "fovea/kernels/linear.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/core/error.h"

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
  return onednn_is_faster(x) ? onednn_product(x, weight, bias) : at::linear(x, weight, bias);
}

// dy: [M, N], weight: [N, K] -> dy weight: [M, K].
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return onednn_is_faster(dy) ? onednn_product(dy, weight.t(), {}) : at::matmul(dy, weight);
}

// dy: [M, N], x: [M, K] -> dy^T x: [N, K]. oneDNN copies its first operand into rows, so the
// smaller one goes there.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) {
  if (!onednn_is_faster(dy)) return at::matmul(dy.t(), x);
  return dy.size(1) <= x.size(1) ? onednn_product(dy.t(), x.t(), {})
                                 : onednn_product(x.t(), dy.t(), {}).t();
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias) {
    const auto rows = x.reshape({-1, x.size(-1)});  // [M, K]
    const auto weight_cast = weight.to(x.scalar_type());
    const auto bias_cast = bias.defined() ? bias.to(x.scalar_type()) : bias;
    ctx->save_for_backward({rows, weight});
    ctx->saved_data["has_bias"] = bias.defined();
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    return product(rows, weight_cast, bias_cast).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];       // [M, K]
    const auto& weight = saved[1];  // [N, K]
    auto dy = gradients[0];
    auto input_shape = dy.sizes().vec();
    input_shape.back() = weight.size(1);
    dy = dy.reshape({-1, dy.size(-1)}).contiguous();  // [M, N]
    variable_list result(3);
    if (ctx->needs_input_grad(0)) {
      result[0] = input_gradient(dy, weight.to(dy.scalar_type())).view(input_shape);
    }
    if (ctx->needs_input_grad(1)) result[1] = weight_gradient(dy, x).to(weight.scalar_type());
    if (ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2)) {
      result[2] = at::sum(dy, {0}, /*keepdim=*/false, weight.scalar_type());
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
  return LinearFunction::apply(x, weight, bias);
}

}  // namespace fovea::kernels
