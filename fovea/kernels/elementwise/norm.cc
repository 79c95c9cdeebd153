#include "fovea/kernels/elementwise/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/bfloat16_norm_rows.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/cuda/layer_norm.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/elementwise/float_rows.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/operators.h"
#include "fovea/kernels/row_views.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/kernels/work_scope.h"

// M rows (all leading dims together), D row length.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows summed into one partial gradient of weight and bias. A constant, so that the order of
// summation, and with it every bit of the result, is the same for any number of threads.
constexpr int64_t kNormRowsPerPartial = 64;

using OptionalTensor = std::optional<at::Tensor>;
using Tensors3 = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Tensors4 = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// x: [M, D] -> y [M, D], mean and rstd [M] float32.
const auto& norm_op() {
  static const auto op =
      find_operator<Tensors3(const at::Tensor&, const OptionalTensor&, const OptionalTensor&,
                             double)>("fovea::layer_norm");
  return op;
}

// dy, x, dskip: [M, D] -> dx + dskip [M, D], gradients of weight and bias [D] float32, undefined
// without one; with dskip, which is for GPUs, the sums of the first over rows [D] float32.
const auto& norm_backward_op() {
  static const auto op =
      find_operator<Tensors4(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                             const at::Tensor&, const at::Tensor&, bool, const OptionalTensor&)>(
          "fovea::layer_norm_backward");
  return op;
}

KernelPath norm_path(const at::Tensor& x) {
  return kernel_paths().of(KernelOp::kNorm, x.scalar_type()).path;
}

// Whether the operators are for x. On the meta device, where there are shapes alone, as on the CPU.
bool has_norm_kernel(const at::Tensor& x) {
  const auto type = x.scalar_type();
  if (x.is_cpu() || x.is_meta()) {
    const bool is_plain = x.is_cpu() && norm_path(x) == KernelPath::kReference;
    return (type == at::kFloat || type == at::kBFloat16) && !is_plain;
  }
  return (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
         x.size(-1) <= cuda::kMaxNormWidth && has_kernel(norm_op(), x.device());
}

const float* data_or_null(const OptionalTensor& x) {
  return x ? x->const_data_ptr<float>() : nullptr;
}

// Of rows that are normed as they are; null: they become floats first.
const uint16_t* bits_in_vectors(const at::Tensor& x) {
  const bool is_in_vectors =
      x.scalar_type() == at::kBFloat16 && norm_path(x) == KernelPath::kAvx512Bf16;
  return is_in_vectors ? bits_of(x) : nullptr;
}

// Of each row [M] float32, or undefined: nobody will ask for them.
struct RowStatistics {
  at::Tensor mean, rstd;
};

// x: [M, D] on the CPU, or the meta device -> [M, D] of `dtype`.
at::Tensor normed_rows(at::ScalarType dtype, const at::Tensor& x, const OptionalTensor& weight,
                       const OptionalTensor& bias, double eps, const RowStatistics& statistics) {
  const int64_t M = x.size(0), D = x.size(1);
  const auto y = at::empty({M, D}, x.options().dtype(dtype));
  if (x.is_meta()) return y;
  const bool are_kept = statistics.mean.defined();
  auto* means = are_kept ? statistics.mean.mutable_data_ptr<float>() : nullptr;
  auto* rstds = are_kept ? statistics.rstd.mutable_data_ptr<float>() : nullptr;
  const auto* weights = data_or_null(weight);
  const auto* biases = data_or_null(bias);
  const FloatRows in(x, D), out(y, D);
  const auto* bits = dtype == x.scalar_type() ? bits_in_vectors(x) : nullptr;
  auto* out_bits = bits ? mutable_bits_of(y) : nullptr;
  constexpr int64_t kLeastRows = 16;  // of a thread
  cpu::run_ranges(M, kLeastRows, [=](int64_t begin, int64_t end) {
    std::vector<float> scratch_x(D), scratch_y(D);
    float dropped[2];
    for (int64_t m = begin; m < end; ++m) {
      auto* mean = are_kept ? means + m : &dropped[0];
      auto* rstd = are_kept ? rstds + m : &dropped[1];
      if (bits) {
        cpu::bfloat16_layer_norm_row(bits + m * D, weights, biases, static_cast<float>(eps), D,
                                     out_bits + m * D, mean, rstd);
        continue;
      }
      const float* row = in.read(m, scratch_x.data());
      out.write(m, scratch_y.data(), [&](float* y) {
        cpu::layer_norm_row(row, weights, biases, static_cast<float>(eps), D, y, mean, rstd);
      });
    }
  });
  return y;
}

// fovea::layer_norm on the CPU and on the meta device.
Tensors3 forward_cpu(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                     double eps) {
  const auto options = x.options().dtype(at::kFloat);
  const RowStatistics made{at::empty({x.size(0)}, options), at::empty({x.size(0)}, options)};
  return {normed_rows(x.scalar_type(), x, weight, bias, eps, made), made.mean, made.rstd};
}

// fovea::layer_norm_backward on the CPU and on the meta device. x may be a saved activation.
Tensors4 backward_cpu(const at::Tensor& dy, const at::Tensor& x, const OptionalTensor& weight,
                      const at::Tensor& mean, const at::Tensor& rstd, bool has_bias,
                      const OptionalTensor& dskip) {
  FOVEA_CHECK(!dskip, "layer_norm_backward on the CPU is of the norm alone");
  const int64_t M = x.size(0), D = x.size(1);
  const int64_t partials = (M + kNormRowsPerPartial - 1) / kNormRowsPerPartial;
  const auto dx = at::empty_like(dy);
  const auto options = x.options().dtype(at::kFloat);
  const auto dweight = weight ? at::zeros({partials, D}, options) : at::Tensor();
  const auto dbias = has_bias ? at::zeros({partials, D}, options) : at::Tensor();
  const auto sums = [&](const at::Tensor& x) { return x.defined() ? sum_rows(x) : x; };
  if (x.is_meta()) return {dx, sums(dweight), sums(dbias), {}};
  const auto* weights = data_or_null(weight);
  const auto* means = mean.const_data_ptr<float>();
  const auto* rstds = rstd.const_data_ptr<float>();
  auto* dweights = dweight.defined() ? dweight.mutable_data_ptr<float>() : nullptr;
  auto* dbiases = dbias.defined() ? dbias.mutable_data_ptr<float>() : nullptr;
  const FloatRows in_dy(dy, D), in_x(x, D), out(dx, D);
  const auto* bits = dy.scalar_type() == x.scalar_type() ? bits_in_vectors(x) : nullptr;
  const auto* given = bits ? bits_of(dy) : nullptr;
  auto* out_bits = bits ? mutable_bits_of(dx) : nullptr;
  cpu::for_ranges(partials, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch_dy(D), scratch_x(D), scratch_dx(D);
    for (int64_t p = begin; p < end; ++p) {
      float* dw = dweights ? dweights + p * D : nullptr;
      float* db = dbiases ? dbiases + p * D : nullptr;
      for (int64_t m = p * kNormRowsPerPartial; m < std::min(M, (p + 1) * kNormRowsPerPartial);
           ++m) {
        if (bits) {
          cpu::bfloat16_layer_norm_row_backward(given + m * D, bits + m * D, weights, means[m],
                                                rstds[m], D, out_bits + m * D, dw, db);
          continue;
        }
        const float* row_dy = in_dy.read(m, scratch_dy.data());
        const float* row_x = in_x.read(m, scratch_x.data());
        out.write(m, scratch_dx.data(), [&](float* to) {
          cpu::layer_norm_row_backward(row_dy, row_x, weights, means[m], rstds[m], D, to, dw, db);
        });
      }
    }
  });
  return {dx, sums(dweight), sums(dbias), {}};
}

// Parameters are optional because Function does not take undefined tensors.
class LayerNormFunction : public SavingFunction<LayerNormFunction> {
 public:
  // -> the output, and where the skip is wanted x.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                               bool wants_skip, std::optional<NormedRows>* made_of) {
    const auto rows = as_dense_rows(x);
    const WorkScope work("fovea::layer_norm", 0, 2 * bytes_of({rows}));
    const auto [y, mean, rstd] = outputs(rows, weight, bias, eps, ctx != nullptr);
    if (ctx != nullptr) {
      ctx->save_for_backward({save_activation(rows), weight.value_or(at::Tensor()), mean, rstd,
                              bias.value_or(at::Tensor())});
      ctx->set_materialize_grads(false);
    }
    if (made_of) *made_of = {rows, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()), eps};
    variable_list results = {y.view(x.sizes())};
    if (wants_skip) results.push_back(x);
    return results;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const bool has_skip = gradients.size() > 1 && gradients[1].defined();
    variable_list result(6);
    if (!gradients[0].defined()) {  // nobody has used the output
      if (has_skip) result[0] = gradients[1];
      return result;
    }
    const auto dy = as_dense_rows(gradients[0]);
    const auto dskip = has_skip ? OptionalTensor(as_dense_rows(gradients[1])) : std::nullopt;
    const WorkScope work("fovea::layer_norm_backward", 0, (has_skip ? 4 : 3) * bytes_of({dy}));
    const auto [dx, dweight, dbias, sums] = norm_backward_op().call(
        dy, saved[0], where_defined(saved[1]), saved[2], saved[3], saved[4].defined(), dskip);
    result[0] = dx.view(gradients[0].sizes());
    if (sums.defined()) hang_row_sums(result[0], sums);
    result[1] = dweight;
    result[2] = dbias;
    return result;
  }

 private:
  // As norm_op's, without the statistics where those would be for backward alone.
  static Tensors3 outputs(const at::Tensor& rows, const OptionalTensor& weight,
                          const OptionalTensor& bias, double eps, bool wants_statistics) {
    if (wants_statistics || rows.is_cuda()) return norm_op().call(rows, weight, bias, eps);
    return {normed_rows(rows.scalar_type(), rows, weight, bias, eps, {}), {}, {}};
  }
};

bool is_there(const at::Tensor& x) {
  return !x.defined() || x.storage().nbytes() >= static_cast<size_t>(x.nbytes());
}

void check_length(const char* op, const char* name, const at::Tensor& x,
                  const at::Tensor& parameter) {
  FOVEA_CHECK(x.dim() >= 1 && (!parameter.defined() || parameter.numel() == x.size(-1)),
              "{}: rows of {} against a {} of {}; expected equal lengths", op,
              x.dim() ? x.size(-1) : 0, name, parameter.defined() ? parameter.numel() : 0);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def(
      "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)");
  m.def(
      "layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor mean, Tensor rstd, bool "
      "has_bias, Tensor? dskip) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(fovea, CPU, m) {
  m.impl("layer_norm", forward_cpu);
  m.impl("layer_norm_backward", backward_cpu);
}
TORCH_LIBRARY_IMPL(fovea, Meta, m) {
  m.impl("layer_norm", forward_cpu);
  m.impl("layer_norm_backward", backward_cpu);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, NormedInput* told) {
  check_length("layer_norm", "weight", x, weight);
  check_length("layer_norm", "bias", x, bias);
  if (has_norm_kernel(x) && x.numel() > 0) {
    const bool wants_skip = told && x.is_cuda();
    const auto made = LayerNormFunction::apply(x, float_or_none(weight), float_or_none(bias), eps,
                                               wants_skip, told ? &told->rows : nullptr);
    if (told && !made[0].requires_grad()) told->rows.reset();
    if (wants_skip) told->skip = made[1];
    return made[0];
  }
  // libtorch's own: float64, and a GPU without our module or with wider rows. It wants parameters
  // in the dtype of x.
  const auto& parameter = weight.defined() ? weight : bias;
  const bool cast = parameter.defined() && parameter.scalar_type() != x.scalar_type();
  const auto input = cast ? x.to(parameter.scalar_type()) : x;
  const auto y = std::get<0>(at::native_layer_norm(input, {x.size(-1)}, weight, bias, eps));
  return y.to(x.scalar_type());
}

bool NormedRows::are_there() const { return is_there(weight) && is_there(bias); }

at::Tensor norm_again(const NormedRows& normed, at::ScalarType dtype) {
  FOVEA_CHECK(normed.are_there(), "layer_norm again of {} rows: its weight is not there any more",
              normed.x.size(0));
  const WorkScope work("fovea::layer_norm", 0, 2 * bytes_of({normed.x}));
  const auto weight = where_defined(normed.weight), bias = where_defined(normed.bias);
  if (normed.x.is_cuda()) return std::get<0>(norm_op().call(normed.x, weight, bias, normed.eps));
  return normed_rows(dtype, normed.x, weight, bias, normed.eps, {});
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_length("rms_norm", "weight", x, weight);
  const auto kind = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto wide = x.to(kind);
  auto y = wide * at::rsqrt(wide.square().mean({-1}, /*keepdim=*/true) + eps);
  if (weight.defined()) y = y * weight;
  return y.to(x.scalar_type());
}

}  // namespace fovea::kernels
