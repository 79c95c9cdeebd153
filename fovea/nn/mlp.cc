// D embed_dim, F features after the activation.
#include "fovea/nn/mlp.h"

#include "fovea/core/error.h"
#include "fovea/kernels/linear/linear.h"

namespace fovea::nn {

MlpKind mlp_from_name(const std::string& name) {
  if (name == "mlp") return MlpKind::kMlp;
  if (name == "swiglu_packed") return MlpKind::kSwigluPacked;
  if (name == "swiglu") return MlpKind::kSwiglu;
  fail<ConfigError>("mlp kind '{}' is unknown; expected mlp, swiglu_packed or swiglu", name);
}

std::vector<std::string> mlp_names() { return {"mlp", "swiglu_packed", "swiglu"}; }

MlpImpl::MlpImpl(const MlpOptions& options, at::Device device) : options_(options) {
  declare_drop("drop1", DropOf::kHidden);
  declare_drop("drop2", DropOf::kTokens);
  int64_t features = options.hidden_dim;
  if (options.kind == MlpKind::kSwiglu) {
    fc1_g_ = register_module("fc1_g", Linear(options.dim, features, options.has_bias, device));
    fc1_x_ = register_module("fc1_x", Linear(options.dim, features, options.has_bias, device));
  } else {
    fc1_ = register_module("fc1", Linear(options.dim, features, options.has_bias, device));
  }
  if (options.kind == MlpKind::kSwigluPacked) {
    FOVEA_CHECK(features % 2 == 0,
                "packed SwiGLU with {} hidden features; expected an even number: gate and value",
                features);
    features /= 2;
  }
  if (options.scale_norm) norm_ = register_module("norm", Norm(features, options.norm, device));
  fc2_ = register_module("fc2", Linear(features, options.dim, options.has_bias, device));
}

at::Tensor MlpImpl::forward(const kernels::LinearInput& x, const at::Tensor& residual) const {
  return run_onto(
      residual,
      [this](const kernels::LinearInput& given, const at::Tensor& added) {
        if (!keeps_hidden()) return without_hidden(given, added);
        const auto kept = dropout(hidden(given), options_.drop_rate, "drop1");  // [..., F]
        const auto y = norm_ ? norm_->for_linear(kept) : kernels::LinearInput(kept);
        return onto(added, dropout(fc2_(y), options_.drop_rate, "drop2"));  // [..., D]
      },
      x);
}

// x: [..., D] -> [..., D], plus the residual.
at::Tensor MlpImpl::without_hidden(const kernels::LinearInput& x,
                                   const at::Tensor& residual) const {
  const kernels::HiddenActivation activation{options_.activation,
                                             options_.kind == MlpKind::kSwigluPacked};
  if (!fc1_->is_plain() || !fc2_->is_plain()) return fc2_(fc1_(x), activation, residual);
  return kernels::linear_of_activation(
      kernels::linear_to_activation(x, activation, fc1_->weight, fc1_->bias), activation,
      fc2_->weight, fc2_->bias, residual);
}

// Whether the hidden features are needed by themselves, between the activation and fc2.
bool MlpImpl::keeps_hidden() const {
  const bool drops = is_training() && options_.drop_rate > 0;
  return options_.kind == MlpKind::kSwiglu || norm_ || drops || is_recorded("act");
}

// x: [..., D] -> [..., F].
at::Tensor MlpImpl::hidden(const kernels::LinearInput& x) const {
  switch (options_.kind) {
    case MlpKind::kMlp: {
      const auto y = kernels::activate(fc1_(x), options_.activation);
      record("act", y);
      return y;
    }
    case MlpKind::kSwigluPacked:
      return kernels::gated_activate(fc1_(x), options_.activation);
    case MlpKind::kSwiglu:
      return kernels::activate(fc1_g_(x), options_.activation) * fc1_x_(x);
  }
  fail("mlp kind {} is not in the table", static_cast<int>(options_.kind));
}

}  // namespace fovea::nn
