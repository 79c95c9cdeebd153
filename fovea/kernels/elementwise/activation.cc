#include "fovea/kernels/elementwise/activation.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/gelu.h"
#include "fovea/kernels/cpu/norm_rows.h"
#include "fovea/kernels/cpu/share_out.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/operators.h"
#include "fovea/kernels/recorded_pass.h"
#include "fovea/kernels/row_views.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {
namespace {

constexpr std::array<std::pair<const char*, Activation>, 5> kActivations = {{
    {"gelu", Activation::kGelu},
    {"gelu_tanh", Activation::kGeluTanh},
    {"quick_gelu", Activation::kQuickGelu},
    {"silu", Activation::kSilu},
    {"relu", Activation::kRelu},
}};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPartOfActivation = 16384;

// Calls work(begin, count) for parts of `size` values, in parallel. `begin` is at a cache line.
template <class Work>
void for_parts(int64_t size, const Work& work) {
  const int64_t units = (size + kPartOfActivation - 1) / kPartOfActivation;
  cpu::for_ranges(units, 1, [&](int64_t begin, int64_t end) {
    const auto first = begin * kPartOfActivation;
    work(first, std::min(end * kPartOfActivation, size) - first);
  });
}

// Calls work(begin, count, values) for parts of a saved activation, in parallel: its values are
// where they lie, or floats of those for the time of the call.
template <class Value, class Work>
void for_saved_parts(const at::Tensor& saved, const Work& work) {
  const bool is_rounded = std::is_same_v<Value, float> && saved.scalar_type() == at::kBFloat16;
  if (!is_rounded) {
    const auto* values = values_of<Value>(saved);
    return for_parts(saved.numel(), [&](int64_t i, int64_t count) { work(i, count, values + i); });
  }
  if constexpr (std::is_same_v<Value, float>) {
    const auto* bits = bits_of(saved);
    for_parts(saved.numel(), [&](int64_t begin, int64_t count) {
      const auto read = std::make_unique_for_overwrite<float[]>(kPartOfActivation);
      for (int64_t i = begin; i < begin + count; i += kPartOfActivation) {
        const auto some = std::min(kPartOfActivation, begin + count - i);
        cpu::bfloat16_to_float(bits + i, some, read.get());
        work(i, some, read.get());
      }
    });
  }
}

// x, contiguous -> x Phi(x).
at::Tensor cpu_gelu(const at::Tensor& x) {
  auto y = at::empty_like(x);
  const WorkScope work("fovea::gelu", 0, 2 * bytes_of({x}));
  in_own_type(x, [&](auto zero) {
    const auto* from = values_of<decltype(zero)>(x);
    auto* to = mutable_values_of<decltype(zero)>(y);
    run_kernel([from, to, size = x.numel()] {
      for_parts(size, [=](int64_t i, int64_t count) { cpu::gelu(from + i, count, to + i); });
    });
  });
  return y;
}

// The gradient of x, contiguous.
at::Tensor cpu_gelu_backward(const at::Tensor& dy, const at::Tensor& x) {
  auto dx = at::empty_like(dy);
  const WorkScope work("fovea::gelu_backward", 0, bytes_of({x, dy, dx}));
  in_own_type(dy, [&](auto zero) {
    using Value = decltype(zero);
    const auto* given = values_of<Value>(dy);
    auto* to = mutable_values_of<Value>(dx);
    for_saved_parts<Value>(x, [=](int64_t i, int64_t count, const Value* from) {
      cpu::gelu_backward(given + i, from, count, to + i);
    });
  });
  return dx;
}

// Both, in one pass.
ActivatedAgain cpu_gelu_again(const at::Tensor& x, const at::Tensor& dy) {
  auto y = at::empty_like(dy), dx = at::empty_like(dy);
  const WorkScope work("fovea::gelu_backward", 0, bytes_of({x, dy, y, dx}));
  in_own_type(dy, [&](auto zero) {
    using Value = decltype(zero);
    const auto* given = values_of<Value>(dy);
    auto *to = mutable_values_of<Value>(dx), *again = mutable_values_of<Value>(y);
    for_saved_parts<Value>(x, [=](int64_t i, int64_t count, const Value* from) {
      cpu::gelu_again(given + i, from, count, to + i, again + i);
    });
  });
  return {y, dx, {}};
}

class GeluFunction : public SavingFunction<GeluFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in) {
    const auto x = x_in.contiguous();
    if (ctx != nullptr) ctx->save_for_backward({save_activation(x)});
    return cpu_gelu(x);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto x = ctx->get_saved_variables()[0];
    return {cpu_gelu_backward(gradients[0].contiguous(), x)};
  }
};

const auto& gpu_gelu_op() {
  static const auto op = find_operator<at::Tensor(const at::Tensor&, bool)>("fovea::gelu");
  return op;
}

at::Tensor as_matrix(const at::Tensor& x) { return x.dim() == 0 ? x.view({1, 1}) : as_rows(x); }

// x: contiguous, of any shape.
at::Tensor gpu_gelu(const at::Tensor& x, bool is_tanh) {
  const WorkScope work("fovea::gelu", 0, 2 * bytes_of({x}));
  return gpu_gelu_op().call(as_matrix(x), is_tanh).view(x.sizes());
}

// What a gradient through GELU gives besides it.
struct GeluWants {
  bool output = false, row_sums = false;
};
ActivatedAgain gpu_gelu_backward(const at::Tensor& dy, const at::Tensor& x, bool is_tanh,
                                 const GeluWants& wants) {
  static const auto op = find_operator<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, bool, bool, bool)>("fovea::gelu_backward");
  const WorkScope work("fovea::gelu_backward", 0, (wants.output ? 4 : 3) * bytes_of({x}));
  auto [dx, y, sums] =
      op.call(as_matrix(dy.contiguous()), as_matrix(x), is_tanh, wants.output, wants.row_sums);
  return {wants.output ? y.view(x.sizes()) : y, dx.view(x.sizes()), sums};
}

bool has_gpu_gelu(const at::Tensor& x) {
  const auto type = x.scalar_type();
  return x.is_cuda() && x.numel() > 0 &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf) &&
         has_kernel(gpu_gelu_op(), x.device());
}

class GpuGeluFunction : public torch::autograd::Function<GpuGeluFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_in, bool is_tanh) {
    const auto x = x_in.contiguous();
    ctx->save_for_backward({x});
    ctx->saved_data["is_tanh"] = is_tanh;
    return gpu_gelu(x, is_tanh);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {gpu_gelu_backward(gradients[0], ctx->get_saved_variables()[0],
                              ctx->saved_data["is_tanh"].toBool(), {})
                .dx,
            at::Tensor()};
  }
};

bool has_cpu_gelu(const at::Tensor& x) {
  return x.is_cpu() && x.numel() > 0 && has_own_gelu(x.scalar_type());
}

at::Tensor exact_gelu(const at::Tensor& x) {
  return has_cpu_gelu(x) ? GeluFunction::apply(x) : at::gelu(x);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("gelu(Tensor x, bool is_tanh) -> Tensor");
  m.def(
      "gelu_backward(Tensor dy, Tensor x, bool is_tanh, bool with_output, bool with_sums) -> "
      "(Tensor, Tensor, Tensor)");
}

bool has_own_gelu(at::ScalarType dtype) {
  if (dtype != at::kFloat && dtype != at::kBFloat16) return false;
  return kernel_paths().of(KernelOp::kGelu, dtype).path != KernelPath::kReference;
}

Activation activation_from_name(const std::string& name) {
  for (const auto& [known, kind] : kActivations) {
    if (name == known) return kind;
  }
  fail<ConfigError>("activation '{}' is unknown; expected one of {}", name,
                    fmt::join(activation_names(), ", "));
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const auto& entry : kActivations) names.emplace_back(entry.first);
  return names;
}

at::Tensor activate(const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::kGelu:
      return has_gpu_gelu(x) ? GpuGeluFunction::apply(x, /*is_tanh=*/false) : exact_gelu(x);
    case Activation::kGeluTanh:
      return has_gpu_gelu(x) ? GpuGeluFunction::apply(x, /*is_tanh=*/true) : at::gelu(x, "tanh");
    case Activation::kQuickGelu:
      return x * at::sigmoid(x * 1.702);
    case Activation::kSilu:
      return at::silu(x);
    case Activation::kRelu:
      return at::relu(x);
  }
  fail("activation {} is not in the table", static_cast<int>(kind));
}

at::Tensor gated_activate(const at::Tensor& packed, Activation kind) {
  FOVEA_CHECK(packed.dim() >= 1 && packed.size(-1) % 2 == 0,
              "gated activation of width {}; expected an even width: gate and value side by side",
              packed.dim() ? packed.size(-1) : 0);
  const auto halves = packed.chunk(2, -1);  // gate, value: [..., D]
  return activate(halves[0], kind) * halves[1];
}

at::Tensor activate(const at::Tensor& x, const HiddenActivation& activation) {
  return activation.is_gated ? gated_activate(x, activation.kind) : activate(x, activation.kind);
}

ActivatedAgain activate_again(const at::Tensor& x, const at::Tensor& dy,
                              const HiddenActivation& activation, bool wants_output) {
  const bool is_tanh = activation.kind == Activation::kGeluTanh;
  if (!activation.is_gated && (is_tanh || activation.kind == Activation::kGelu) &&
      has_gpu_gelu(x)) {
    return gpu_gelu_backward(dy, x.contiguous(), is_tanh,
                             {.output = wants_output, .row_sums = true});
  }
  if (!activation.is_gated && activation.kind == Activation::kGelu && has_cpu_gelu(dy)) {
    return cpu_gelu_again(x.contiguous(), dy.contiguous());
  }
  const at::AutoGradMode records(true);
  const auto before = read_activation(x, dy.scalar_type()).detach().set_requires_grad(true);
  const auto after = activate(before, activation);
  return {after.detach(), torch::autograd::grad({after}, {before}, {dy}).front(), {}};
}

}  // namespace fovea::kernels
