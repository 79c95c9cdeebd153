// Normalisation of tokens, with the names of timm's LayerNorm and RmsNorm.
#pragma once

#include <c10/core/Device.h>
#include <torch/nn/pimpl.h>

#include "fovea/nn/unit.h"

namespace fovea::nn {

enum class NormKind { kLayerNorm, kRmsNorm };

// "layer_norm" or "rms_norm". Throws ConfigError.
NormKind norm_from_name(const std::string& name);
std::vector<std::string> norm_names();

struct NormOptions {
  NormKind kind = NormKind::kLayerNorm;
  double eps = 1e-6;
};

// x: [..., dim] -> [..., dim]; parameters weight [dim] and, for layer norm, bias [dim].
class NormImpl : public UnitImpl {
 public:
  NormImpl(int64_t dim, const NormOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x);

  at::Tensor weight;
  at::Tensor bias;  // undefined for RMS norm

 private:
  NormOptions options_;
};
TORCH_MODULE(Norm);

}  // namespace fovea::nn
