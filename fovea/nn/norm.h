// Normalisation of tokens, with the names of timm's LayerNorm and RmsNorm.
#pragma once

#include <c10/core/Device.h>

#include "fovea/kernels/linear/linear.h"
#include "fovea/nn/unit.h"
#include "fovea/nn/unit_holder.h"

namespace fovea::nn {

enum class NormKind { kLayerNorm, kRmsNorm };

// "layer_norm" or "rms_norm". Throws ConfigError.
NormKind norm_from_name(const std::string& name);
std::vector<std::string> norm_names();

struct NormOptions {
  NormKind kind = NormKind::kLayerNorm;
  double eps = 1e-6;
  bool has_affine = true;  // false: no weight and no bias, as under a modulation (adaln.h)
};

// x: [..., dim] -> [..., dim]; parameters weight [dim] and, for layer norm, bias [dim]; none
// without has_affine.
class NormImpl : public UnitImpl {
 public:
  NormImpl(int64_t dim, const NormOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;
  // The same where a Linear comes next, which then need not keep what the norm gives it.
  kernels::LinearInput for_linear(const at::Tensor& x) const;

  at::Tensor weight;  // undefined without has_affine
  at::Tensor bias;    // undefined for RMS norm, too

 private:
  NormOptions options_;
};
using Norm = UnitHolder<NormImpl>;

}  // namespace fovea::nn
