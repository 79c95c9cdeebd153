// The feed-forward part of a block, plain and gated.
#pragma once

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/nn/linear.h"
#include "fovea/nn/norm.h"

namespace fovea::nn {

enum class MlpKind {
  kMlp,           // fc1, activation, fc2
  kSwigluPacked,  // fc1 holds gate and value side by side: [gate; value] of hidden_dim / 2 each
  kSwiglu,        // fc1_g (gate) and fc1_x (value) of hidden_dim each
};

// "mlp", "swiglu_packed" or "swiglu". Throws ConfigError.
MlpKind mlp_from_name(const std::string& name);
std::vector<std::string> mlp_names();

struct MlpOptions {
  MlpKind kind = MlpKind::kMlp;
  int64_t dim = 0;
  int64_t hidden_dim = 0;
  kernels::Activation activation = kernels::Activation::kGelu;
  bool has_bias = true;
  bool scale_norm = false;  // norm of the hidden features before fc2
  double drop_rate = 0.0;   // after the activation (drop1) and after fc2 (drop2)
  NormOptions norm = {};
};

// x: [..., D] -> [..., D]. Parameters as timm's Mlp, GluMlp and SwiGLU.
class MlpImpl : public UnitImpl {
 public:
  MlpImpl(const MlpOptions& options, at::Device device);

  // residual: [..., D], added to the output; undefined: none.
  at::Tensor forward(const kernels::LinearInput& x, const at::Tensor& residual = {}) const;

 private:
  at::Tensor without_hidden(const kernels::LinearInput& x, const at::Tensor& residual) const;
  at::Tensor hidden(const kernels::LinearInput& x) const;
  bool keeps_hidden() const;

  MlpOptions options_;
  Linear fc1_ = nullptr;    // kMlp, kSwigluPacked
  Linear fc1_g_ = nullptr;  // kSwiglu
  Linear fc1_x_ = nullptr;  // kSwiglu
  Norm norm_ = nullptr;
  Linear fc2_ = nullptr;
};
using Mlp = UnitHolder<MlpImpl>;

}  // namespace fovea::nn
