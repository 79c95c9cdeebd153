// A learned scale per feature, near zero at the start (Touvron et al. 2021, "Going deeper with
// image transformers").
#pragma once

#include <c10/core/Device.h>

#include "fovea/nn/unit.h"
#include "fovea/nn/unit_holder.h"

namespace fovea::nn {

// x * gamma. x: [..., dim] -> [..., dim] in the dtype of x.
class LayerScaleImpl : public UnitImpl {
 public:
  LayerScaleImpl(int64_t dim, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor gamma;  // [dim]
};
using LayerScale = UnitHolder<LayerScaleImpl>;

}  // namespace fovea::nn
