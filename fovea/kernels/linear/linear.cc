#include "fovea/kernels/linear/linear.h"

#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/norm.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/linear/gpu_products.h"
#include "fovea/kernels/linear/leaf_gradient.h"
#include "fovea/kernels/linear/matrix_products.h"
#include "fovea/kernels/linear/weight_copies.h"
#include "fovea/kernels/operators.h"
#include "fovea/kernels/recompute_cheap.h"
#include "fovea/kernels/row_views.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/kernels/work_scope.h"

// M rows (all leading dims together), K input width, N output width.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// dy: [M, N], x: [M, K] -> [N, K], the shape of `weight`, and [N] where it costs nothing. The first
// one is undefined where it was added to the weight's gradient, see Note [Gradients that products
// add to].
WeightGradients logged_weight_gradients(const at::Tensor& dy, const at::Tensor& x,
                                        const at::Tensor& weight, bool wants_bias) {
  const WorkScope work("fovea::linear_backward_weight", flops_of_product(dy.size(0), weight),
                       bytes_of({dy, x}) + weight.numel() * dy.itemsize());
  const auto sum = adds_weight_gradients(dy, x) ? gradient_to_add_to(weight) : at::Tensor();
  if (sum.defined()) return {{}, add_weight_gradients(dy, x, sum, wants_bias)};
  return weight_gradients(dy, x, wants_bias);
}

// dy: [M, N], weight: [N, K] -> [M, K]; of gelu_input [M, K] where that is given.
at::Tensor logged_input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                 const at::Tensor& gelu_input = {}) {
  const auto factor = own_weight(weight, dy.scalar_type());
  const WorkScope work(
      "fovea::linear_backward_input", flops_of_product(dy.size(0), weight),
      bytes_of({dy, factor, gelu_input}) + dy.size(0) * weight.size(1) * dy.itemsize());
  return gelu_input.defined() ? input_gradient_through_gelu(dy, factor, gelu_input)
                              : input_gradient(dy, factor);
}

// What a product was of, as far as the forward pass kept it, and as save_activation has left that.
struct KeptInput {
  at::Tensor x;     // [M, K] as it was given, or what a norm made that of
  at::Tensor rows;  // [M, K] as the product got them; undefined: to be made again
};

// What the backward pass makes of that.
struct InputOfBackward {
  at::Tensor rows;      // [M, K] as the product got them, or as they were saved
  at::Tensor gradient;  // of x as it was given; undefined where it is not needed
  at::Tensor row_sums;  // of the gradient, where they came on the way
};

InputOfBackward input_of_backward(const at::Tensor& dy, const at::Tensor& weight,
                                  const KeptInput& kept,
                                  const std::optional<HiddenActivation>& activation,
                                  bool needs_gradient) {
  const auto rows = [&] {
    return kept.rows.defined() ? kept.rows
                               : activate(read_activation(kept.x, dy.scalar_type()), *activation);
  };
  if (!activation) {
    return {kept.rows, needs_gradient ? logged_input_gradient(dy, weight) : at::Tensor(), {}};
  }
  if (!needs_gradient) return {rows(), {}, {}};
  if (takes_gelu_gradient(case_of_gradient(dy, weight.size(1)), *activation)) {
    return {rows(), logged_input_gradient(dy, weight, kept.x), {}};
  }
  const auto again = activate_again(kept.x, logged_input_gradient(dy, weight), *activation,
                                    /*wants_output=*/!kept.rows.defined());
  return {kept.rows.defined() ? kept.rows : again.y, again.dx, again.row_sums};
}

// What is done besides a product.
struct AroundProduct {
  std::optional<HiddenActivation> activation{};  // of x
  at::Tensor activated{};                        // that, where it is there
  std::optional<NormedRows> normed{};            // what x was made of
  at::Tensor* gelu = nullptr;                    // becomes the activation of the result
  bool needs_product = true;                     // the result itself, beside that
};

class LinearFunction : public SavingFunction<LinearFunction> {
 public:
  // Bias and residual are optional because Function does not take undefined tensors.
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& residual,
                            const AroundProduct& around) {
    const auto& activation = around.activation;
    const auto given = as_rows(x);                    // [M, K], or what is activated to that
    const auto rows = activated_rows(given, around);  // [M, K]
    if (ctx != nullptr) {
      ctx->saved_data["has_residual"] = residual.has_value();
      keep(*ctx, {.x = given, .rows = rows}, weight, around);
      if (bias) ctx->saved_data["bias_dtype"] = bias->scalar_type();
      if (activation) {
        ctx->saved_data["activation"] = static_cast<int64_t>(activation->kind);
        ctx->saved_data["is_gated"] = activation->is_gated;
      }
    }
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    const auto made = product_of(rows, weight, bias, residual, around);
    if (around.gelu != nullptr) *around.gelu = around.gelu->view(shape);
    return made.view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& weight = saved[kWeight];  // [N, K]
    const bool needs_weight = ctx->needs_input_grad(1);
    const auto bias_dtype = ctx->saved_data.find("bias_dtype");
    const bool needs_bias = bias_dtype != ctx->saved_data.end() && ctx->needs_input_grad(2);
    const auto dy = as_rows(gradients[0]).contiguous();  // [M, N]
    const auto norm_eps = ctx->saved_data.find("norm_eps");
    auto x = input_of_backward(dy, weight, {saved[kX], saved[kRows]}, activation_of(*ctx),
                               ctx->needs_input_grad(0));
    if (needs_weight && norm_eps != ctx->saved_data.end()) {
      x.rows =
          norm_again({saved[kX], saved[kNormWeight], saved[kNormBias], norm_eps->second.toDouble()},
                     dy.scalar_type());
    }
    variable_list result(5);
    if (ctx->saved_data["has_residual"].toBool()) result[3] = gradients[0];
    if (x.gradient.defined()) {
      auto shape = gradients[0].sizes().vec();
      shape.back() = x.gradient.size(1);
      result[0] = x.gradient.view(shape);
      if (x.row_sums.defined()) hang_row_sums(result[0], x.row_sums);
    }
    auto bias = needs_bias ? hanging_row_sums(gradients[0]) : at::Tensor();
    if (needs_weight) {
      const auto found = logged_weight_gradients(dy, x.rows, weight, needs_bias && !bias.defined());
      if (found.weight.defined()) result[1] = found.weight.to(weight.scalar_type());
      if (found.bias.defined()) bias = found.bias;
    }
    if (needs_bias) {
      if (!bias.defined()) {
        const WorkScope work("fovea::linear_backward_bias", 0, bytes_of({dy}));
        bias = sum_rows(dy);
      }
      result[2] = bias.to(bias_dtype->second.toScalarType());
    }
    return result;
  }

 private:
  // Places of what is saved.
  enum Saved : size_t { kX, kWeight, kRows, kNormWeight, kNormBias };

  // What a norm or an activation made is kept, or can be made again of what there is anyhow.
  static void keep(AutogradContext& ctx, const KeptInput& input, const at::Tensor& weight,
                   const AroundProduct& around) {
    const bool is_made = around.normed || around.activation;
    const bool is_kept = !is_made || is_kept_for_backward(input.rows);
    const auto rows = is_kept ? input.rows : at::Tensor();
    if (is_kept || !around.normed) {
      const auto given = around.activation ? input.x : at::Tensor();
      return ctx.save_for_backward({save_activation(given), weight, save_activation(rows), {}, {}});
    }
    ctx.save_for_backward({save_activation(around.normed->x),
                           weight,
                           {},
                           around.normed->weight,
                           around.normed->bias});
    ctx.saved_data["norm_eps"] = around.normed->eps;
  }

  static at::Tensor activated_rows(const at::Tensor& x, const AroundProduct& around) {
    if (around.activated.defined()) return as_rows(around.activated);
    return around.activation ? activate(x, *around.activation) : x;
  }

  // rows: [M, K] -> [M, N].
  static at::Tensor product_of(const at::Tensor& rows, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias,
                               const std::optional<at::Tensor>& residual,
                               const AroundProduct& around) {
    tell_watcher(weight, rows);
    const auto own_bias = bias ? own_weight(*bias, rows.scalar_type()) : at::Tensor();
    const auto added = residual ? as_rows(*residual) : at::Tensor();
    const int64_t made = rows.size(0) * weight.size(0) * (around.gelu ? 2 : 1);
    const WorkScope work(
        "fovea::linear", flops_of_product(rows.size(0), weight),
        bytes_of({rows, own_bias, added}) + (weight.numel() + made) * rows.itemsize());
    if (!around.gelu) return product(rows, weight, own_bias, added);
    const auto [y, gelu] = product_and_gelu(rows, weight, own_bias, around.needs_product);
    *around.gelu = gelu;
    return y.defined() ? y : gelu;
  }

  static std::optional<HiddenActivation> activation_of(AutogradContext& ctx) {
    const auto kind = ctx.saved_data.find("activation");
    if (kind == ctx.saved_data.end()) return {};
    return HiddenActivation{.kind = static_cast<Activation>(kind->second.toInt()),
                            .is_gated = ctx.saved_data["is_gated"].toBool()};
  }
};

void check_widths(int64_t x, const at::Tensor& weight) {
  FOVEA_CHECK(weight.dim() == 2 && x == weight.size(1),
              "linear: x of width {} against a weight of {} x {}; expected equal widths", x,
              weight.dim() ? weight.size(0) : 0, weight.dim() == 2 ? weight.size(1) : 0);
}

// residual: as what x makes.
void check_residual(const at::Tensor& residual, const at::Tensor& x, const at::Tensor& weight) {
  if (!residual.defined()) return;
  auto expected = x.sizes().vec();
  expected.back() = weight.size(0);
  FOVEA_CHECK(
      residual.sizes() == at::IntArrayRef(expected) && residual.scalar_type() == x.scalar_type(),
      "linear: a residual {} of {} beside an output {} of {}; expected the same",
      c10::str(residual.sizes()), c10::toString(residual.scalar_type()),
      c10::str(at::IntArrayRef(expected)), c10::toString(x.scalar_type()));
}

std::optional<NormedRows> rows_that_are_there(const LinearInput& input) {
  const auto& rows = input.normed.rows;
  return rows && rows->are_there() ? rows : std::nullopt;
}

}  // namespace

at::Tensor linear(const LinearInput& input, const at::Tensor& weight, const at::Tensor& bias,
                  const at::Tensor& residual) {
  const auto& x = input.x;
  check_widths(x.dim() ? x.size(-1) : 0, weight);
  check_residual(residual, x, weight);
  return LinearFunction::apply(x, weight, where_defined(bias), where_defined(residual),
                               AroundProduct{.normed = rows_that_are_there(input)});
}

HiddenFeatures linear_to_activation(const LinearInput& input, const HiddenActivation& activation,
                                    const at::Tensor& weight, const at::Tensor& bias) {
  const auto& x = input.x;
  check_widths(x.dim() ? x.size(-1) : 0, weight);
  HiddenFeatures hidden;
  const bool gives_gelu = takes_gelu(case_of_weight(x, weight), activation);
  hidden.before = LinearFunction::apply(
      x, weight, where_defined(bias), where_defined({}),
      AroundProduct{.normed = rows_that_are_there(input),
                    .gelu = gives_gelu ? &hidden.after : nullptr,
                    .needs_product = torch::autograd::compute_requires_grad(x, weight, bias)});
  return hidden;
}

at::Tensor linear_of_activation(const HiddenFeatures& x, const HiddenActivation& activation,
                                const at::Tensor& weight, const at::Tensor& bias,
                                const at::Tensor& residual) {
  const auto& given = x.before;
  check_widths((given.dim() ? given.size(-1) : 0) / (activation.is_gated ? 2 : 1), weight);
  check_residual(residual, given, weight);
  return LinearFunction::apply(given, weight, where_defined(bias), where_defined(residual),
                               AroundProduct{.activation = activation, .activated = x.after});
}

}  // namespace fovea::kernels
