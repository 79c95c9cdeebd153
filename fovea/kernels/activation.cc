#include "fovea/kernels/activation.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::kernels {
namespace {

constexpr std::array<std::pair<const char*, Activation>, 5> kActivations = {{
    {"gelu", Activation::kGelu},
    {"gelu_tanh", Activation::kGeluTanh},
    {"quick_gelu", Activation::kQuickGelu},
    {"silu", Activation::kSilu},
    {"relu", Activation::kRelu},
}};

}  // namespace

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
      return at::gelu(x);
    case Activation::kGeluTanh:
      return at::gelu(x, "tanh");
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

}  // namespace fovea::kernels
