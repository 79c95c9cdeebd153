#include "fovea/kernels/norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/reduce.h"
#include "fovea/kernels/work_scope.h"

// M rows (all leading dims together), D row length.
namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows summed into one partial gradient of weight and bias. A constant, so that the order of
// summation, and with it every bit of the result, is the same for any number of threads.
constexpr int64_t kNormRowsPerPartial = 64;

// On the meta device as well, where there are shapes alone.
bool has_cpu_norm(const at::Tensor& x) {
  return (x.is_cpu() || x.is_meta()) &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

// Rows of a [M, D] tensor, read and written as float whatever its dtype. Holds pointers: asking a
// tensor for them in every row costs as much as a short row.
class Rows {
 public:
  Rows(const at::Tensor& x, int64_t D)
      : D_(D), is_float_(x.scalar_type() == at::kFloat), data_(x.data_ptr()) {}

  // The row itself for float32, else converted into `scratch`.
  const float* read(int64_t row, float* scratch) const {
    if (is_float_) return floats() + row * D_;
    cpu::bfloat16_to_float(bits() + row * D_, D_, scratch);
    return scratch;
  }
  // Calls write(destination) with a row of float and leaves it in the tensor's dtype.
  template <class Write>
  void write(int64_t row, float* scratch, const Write& write) const {
    if (is_float_) {
      write(floats() + row * D_);
      return;
    }
    write(scratch);
    cpu::float_to_bfloat16(scratch, D_, bits() + row * D_);
  }

 private:
  float* floats() const { return static_cast<float*>(data_); }
  uint16_t* bits() const { return static_cast<uint16_t*>(data_); }

  int64_t D_;
  bool is_float_;
  void* data_;
};

const float* data_or_null(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr<float>() : nullptr;
}

struct NormResult {
  at::Tensor y, mean, rstd;  // [M, D], [M] and [M] float32
};

NormResult forward_cpu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       double eps) {
  const int64_t M = x.size(0), D = x.size(1);
  const auto statistics = x.options().dtype(at::kFloat);
  NormResult result{at::empty_like(x), at::empty({M}, statistics), at::empty({M}, statistics)};
  if (x.is_meta()) return result;
  auto* mean = result.mean.mutable_data_ptr<float>();
  auto* rstd = result.rstd.mutable_data_ptr<float>();
  const auto* weights = data_or_null(weight);
  const auto* biases = data_or_null(bias);
  const Rows in(x, D), out(result.y, D);
  at::parallel_for(0, M, kNormRowsPerPartial, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch_x(D), scratch_y(D);
    for (int64_t m = begin; m < end; ++m) {
      const float* row = in.read(m, scratch_x.data());
      out.write(m, scratch_y.data(), [&](float* y) {
        cpu::layer_norm_row(row, weights, biases, static_cast<float>(eps), D, y, mean + m,
                            rstd + m);
      });
    }
  });
  return result;
}

variable_list backward_cpu(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
                           const at::Tensor& mean, const at::Tensor& rstd, bool has_bias) {
  const int64_t M = x.size(0), D = x.size(1);
  const int64_t partials = (M + kNormRowsPerPartial - 1) / kNormRowsPerPartial;
  const auto dx = at::empty_like(x);
  const auto options = x.options().dtype(at::kFloat);
  const auto dweight = weight.defined() ? at::zeros({partials, D}, options) : at::Tensor();
  const auto dbias = has_bias ? at::zeros({partials, D}, options) : at::Tensor();
  const auto sums = [&](const at::Tensor& x) { return x.defined() ? sum_rows(x) : x; };
  if (x.is_meta()) return {dx, sums(dweight), sums(dbias)};
  const auto* weights = data_or_null(weight);
  const auto* means = mean.const_data_ptr<float>();
  const auto* rstds = rstd.const_data_ptr<float>();
  auto* dweights = dweight.defined() ? dweight.mutable_data_ptr<float>() : nullptr;
  auto* dbiases = dbias.defined() ? dbias.mutable_data_ptr<float>() : nullptr;
  const Rows in_dy(dy, D), in_x(x, D), out(dx, D);
  at::parallel_for(0, partials, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch_dy(D), scratch_x(D), scratch_dx(D);
    for (int64_t p = begin; p < end; ++p) {
      float* dw = dweights ? dweights + p * D : nullptr;
      float* db = dbiases ? dbiases + p * D : nullptr;
      for (int64_t m = p * kNormRowsPerPartial; m < std::min(M, (p + 1) * kNormRowsPerPartial);
           ++m) {
        const float* row_dy = in_dy.read(m, scratch_dy.data());
        const float* row_x = in_x.read(m, scratch_x.data());
        out.write(m, scratch_dx.data(), [&](float* to) {
          cpu::layer_norm_row_backward(row_dy, row_x, weights, means[m], rstds[m], D, to, dw, db);
        });
      }
    }
  });
  return {dx, sums(dweight), sums(dbias)};
}

// Parameters are optional because Function does not take undefined tensors.
class LayerNormFunction : public torch::autograd::Function<LayerNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, double eps) {
    const auto rows = x.reshape({-1, x.size(-1)}).contiguous();  // [M, D]
    const WorkScope work("fovea::layer_norm", 0, 2 * bytes_of({rows}));
    const auto result =
        forward_cpu(rows, weight.value_or(at::Tensor()), bias.value_or(at::Tensor()), eps);
    ctx->save_for_backward({rows, weight.value_or(at::Tensor()), result.mean, result.rstd});
    ctx->saved_data["has_bias"] = bias.has_value();
    return result.y.view(x.sizes());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto dy = gradients[0].reshape({-1, gradients[0].size(-1)}).contiguous();  // [M, D]
    const WorkScope work("fovea::layer_norm_backward", 0, 3 * bytes_of({dy}));
    auto result = backward_cpu(dy, saved[0], saved[1], saved[2], saved[3],
                               ctx->saved_data["has_bias"].toBool());
    result[0] = result[0].view(gradients[0].sizes());
    result.emplace_back();  // eps
    return result;
  }
};

std::optional<at::Tensor> as_float(const at::Tensor& x) {
  if (!x.defined()) return std::nullopt;
  return x.to(at::kFloat).contiguous();
}

void check_length(const char* op, const char* name, const at::Tensor& x,
                  const at::Tensor& parameter) {
  FOVEA_CHECK(x.dim() >= 1 && (!parameter.defined() || parameter.numel() == x.size(-1)),
              "{}: rows of {} against a {} of {}; expected equal lengths", op,
              x.dim() ? x.size(-1) : 0, name, parameter.defined() ? parameter.numel() : 0);
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps) {
  check_length("layer_norm", "weight", x, weight);
  check_length("layer_norm", "bias", x, bias);
  if (has_cpu_norm(x) && x.numel() > 0) {
    return LayerNormFunction::apply(x, as_float(weight), as_float(bias), eps);
  }
  // libtorch's own: other devices and float64. Parameters are in the dtype of the statistics; on a
  // GPU with bfloat16 activations that takes a cast of x, which a fused kernel of ours will save.
  const auto& parameter = weight.defined() ? weight : bias;
  const bool cast = parameter.defined() && parameter.scalar_type() != x.scalar_type();
  const auto input = cast ? x.to(parameter.scalar_type()) : x;
  const auto y = std::get<0>(at::native_layer_norm(input, {x.size(-1)}, weight, bias, eps));
  return y.to(x.scalar_type());
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
