#include "fovea/kernels/linear/fp8_linear.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/linear/fp8.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/kernels/operators.h"
#include "fovea/kernels/row_views.h"
#include "fovea/kernels/work_scope.h"

// M rows (all leading dims together), K input width, N output width.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kDelayedMargin = 1;  // a tensor may double from one step to the next

// What a tensor is scaled for, each time that a form of it is made.
struct ScaleSource {
  at::Tensor largest;
  int margin = 0;
};

ScaleSource scale_source(const at::Tensor& x, const Fp8Scaling& scaling) {
  if (scaling.past.defined()) return {scaling.past, kDelayedMargin};
  const WorkScope work("fovea::fp8_largest", 0, bytes_of({x}));
  return {fp8_largest(x), 0};
}

// Which forms of a matrix products are taken of.
struct Forms {
  bool rows = false, columns = false;
};

Fp8Matrix logged_cast(const at::Tensor& x, const ScaleSource& source, Fp8Format format,
                      const Forms& forms, const at::Tensor& seen = {}) {
  const int64_t made = x.numel() * (static_cast<int>(forms.rows) + static_cast<int>(forms.columns));
  const WorkScope work("fovea::fp8_cast", 0, bytes_of({x}) + made);
  return fp8_cast(x, source.largest,
                  {.format = format,
                   .margin = source.margin,
                   .rows = forms.rows,
                   .columns = forms.columns,
                   .seen = seen});
}

// Those of a weight as it is; empty ones where it has changed.
Fp8WeightCodes& codes_of(const at::Tensor& weight, const Fp8LinearScaling& scaling) {
  auto& codes = *scaling.codes;
  const void* data = weight.is_meta() ? nullptr : weight.const_data_ptr();
  if (codes.data != data || codes.version != weight._version()) {
    codes = {.data = data, .version = weight._version()};
  }
  return codes;
}

ScaleSource weight_source(const at::Tensor& weight, const Fp8LinearScaling& scaling) {
  if (!scaling.codes) return scale_source(weight, scaling.weight);
  auto& codes = codes_of(weight, scaling);
  auto source = codes.largest.defined()
                    ? ScaleSource{codes.largest, scaling.weight.past.defined() ? kDelayedMargin : 0}
                    : scale_source(weight, scaling.weight);
  codes.largest = source.largest;
  return source;
}

// Has the forms at least. seen: as in Fp8CastOptions.
Fp8Matrix weight_codes(const at::Tensor& weight, const ScaleSource& source, const Forms& forms,
                       const Fp8LinearScaling& scaling, const at::Tensor& seen = {}) {
  if (!scaling.codes) return logged_cast(weight, source, Fp8Format::kE4M3, forms, seen);
  auto& kept = codes_of(weight, scaling).matrix;
  const bool has_rows = kept.rows.defined(), has_columns = kept.columns.defined();
  const bool is_whole = has_rows && kept.rows.is_cpu();  // there rows are all that there is
  if (is_whole || ((has_rows || !forms.rows) && (has_columns || !forms.columns))) return kept;
  auto made = logged_cast(weight, source, Fp8Format::kE4M3, forms, seen);
  if (!made.rows.defined()) made.rows = kept.rows;
  if (!made.columns.defined()) made.columns = kept.columns;
  kept = made;
  return made;
}

// What backward needs besides what autograd saves.
struct Fp8Layer : torch::CustomClassHolder {
  Fp8LinearScaling scaling;
  std::optional<HiddenActivation> activation;
  bool keeps_codes = false;  // of x; else, with an activation, what that is of
  ScaleSource x, weight;
  std::optional<at::ScalarType> bias_dtype;
};
using Fp8LayerPtr = c10::intrusive_ptr<Fp8Layer>;

class Fp8LinearFunction : public torch::autograd::Function<Fp8LinearFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Fp8LayerPtr& layer) {
    const auto given = as_dense_rows(x);  // [M, K], or what the activation makes that of
    const auto rows = layer->activation ? activate(given, *layer->activation) : given;
    layer->x = scale_source(rows, layer->scaling.x);
    layer->weight = weight_source(weight, layer->scaling);
    if (bias) layer->bias_dtype = bias->scalar_type();
    const auto own_x =
        logged_cast(rows, layer->x, Fp8Format::kE4M3, {.rows = true, .columns = layer->keeps_codes},
                    layer->scaling.x.seen);
    const auto own_weight = weight_codes(weight, layer->weight, {.rows = true}, layer->scaling,
                                         layer->scaling.weight.seen);
    ctx->saved_data["layer"] = at::IValue::make_capsule(layer);
    ctx->save_for_backward(to_save(weight, given, own_x, *layer));
    auto shape = x.sizes().vec();
    shape.back() = weight.size(0);
    const auto own_bias = bias ? bias->to(at::kBFloat16) : at::Tensor();
    const WorkScope work("fovea::fp8_linear", flops_of_product(rows.size(0), weight),
                         rows.numel() + weight.numel() + 2 * rows.size(0) * weight.size(0));
    return fp8_product(own_x, own_weight, own_bias).view(shape);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto capsule = ctx->saved_data.at("layer").toCapsule();
    const auto& layer = static_cast<const Fp8Layer&>(*capsule);
    const auto saved = ctx->get_saved_variables();
    const auto& weight = saved[0];  // [N, K]
    const bool needs_x = ctx->needs_input_grad(0), needs_weight = ctx->needs_input_grad(1);
    const auto dy = as_dense_rows(gradients[0]);  // [M, N]
    variable_list result(4);
    if (layer.bias_dtype && ctx->needs_input_grad(2)) {
      const WorkScope work("fovea::linear_backward_bias", 0, bytes_of({dy}));
      result[2] = sum_rows(dy).to(*layer.bias_dtype);
    }
    if (!needs_x && !needs_weight) return result;
    const auto& scaling = layer.scaling.gradient;
    const auto own_dy = logged_cast(dy, scale_source(dy, scaling), Fp8Format::kE5M2,
                                    {.rows = needs_x, .columns = needs_weight}, scaling.seen);
    const auto given = layer.activation ? saved[1] : at::Tensor();  // [M, K]
    at::Tensor rows;                                                // the activation of it
    if (needs_x) {
      auto shape = gradients[0].sizes().vec();
      auto dx = input_product(own_dy, dy.size(0), weight, layer);
      if (given.defined()) {
        auto again = activate_again(given, dx, *layer.activation);
        rows = std::move(again.y);
        dx = std::move(again.dx);
      }
      shape.back() = dx.size(1);
      result[0] = dx.view(shape);
    } else if (given.defined()) {
      rows = activate(given, *layer.activation);
    }
    if (needs_weight) {
      const auto own_x = rows.defined()
                             ? logged_cast(rows, layer.x, Fp8Format::kE4M3, {.columns = true})
                             : with_columns(saved[1], saved[2]);
      result[1] = weight_product(own_dy, own_x, dy.size(0), weight);
    }
    return result;
  }

 private:
  // On a CPU rows are all that there is.
  static variable_list to_save(const at::Tensor& weight, const at::Tensor& given,
                               const Fp8Matrix& x, const Fp8Layer& layer) {
    if (layer.activation) return {weight, given};
    if (!layer.keeps_codes) return {weight};
    return {weight, x.columns.defined() ? x.columns : x.rows, x.inverse_scale};
  }
  static Fp8Matrix with_columns(const at::Tensor& codes, const at::Tensor& inverse_scale) {
    Fp8Matrix x{.inverse_scale = inverse_scale};
    (codes.is_cpu() ? x.rows : x.columns) = codes;
    return x;
  }

  // -> [N, K] in the dtype of the weight.
  static at::Tensor weight_product(const Fp8Matrix& dy, const Fp8Matrix& x, int64_t M,
                                   const at::Tensor& weight) {
    const WorkScope work("fovea::fp8_linear_backward_weight", flops_of_product(M, weight),
                         M * (weight.size(0) + weight.size(1)) + 4 * weight.numel());
    return fp8_weight_gradient(dy, x).to(weight.scalar_type());
  }

  // -> [M, K].
  static at::Tensor input_product(const Fp8Matrix& dy, int64_t M, const at::Tensor& weight,
                                  const Fp8Layer& layer) {
    const auto own_weight = weight_codes(weight, layer.weight, {.columns = true}, layer.scaling);
    const WorkScope work("fovea::fp8_linear_backward_input", flops_of_product(M, weight),
                         M * (weight.size(0) + 2 * weight.size(1)) + weight.numel());
    return fp8_input_gradient(dy, own_weight);
  }
};

void check_fp8_linear(const at::Tensor& x, const std::optional<HiddenActivation>& activation,
                      const at::Tensor& weight) {
  const int64_t width = (x.dim() ? x.size(-1) : 0) / (activation && activation->is_gated ? 2 : 1);
  FOVEA_CHECK(x.scalar_type() == at::kBFloat16 && weight.dim() == 2 && width == weight.size(1) &&
                  weight.size(0) % kFp8Alignment == 0 && width % kFp8Alignment == 0,
              "fp8_linear: x of {} and width {} against a weight of {}; expected bfloat16, equal "
              "widths, and multiples of {}",
              c10::toString(x.scalar_type()), width, c10::str(weight.sizes()), kFp8Alignment);
}

}  // namespace

at::Tensor fp8_linear(const at::Tensor& x, const std::optional<HiddenActivation>& activation,
                      const at::Tensor& weight, const at::Tensor& bias,
                      const Fp8LinearScaling& scaling) {
  check_fp8_linear(x, activation, weight);
  if (x.numel() == 0) {  // there is nothing to scale
    return activation ? linear_of_activation({x, {}}, *activation, weight, bias)
                      : kernels::linear(x, weight, bias);
  }
  auto layer = c10::make_intrusive<Fp8Layer>();
  layer->scaling = scaling;
  layer->activation = activation;
  layer->keeps_codes = !activation && at::GradMode::is_enabled() && weight.requires_grad();
  return Fp8LinearFunction::apply(x, weight, where_defined(bias), Fp8LayerPtr(std::move(layer)));
}

}  // namespace fovea::kernels
