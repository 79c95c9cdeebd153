#include "fovea/nn/layer_scale.h"

#include <ATen/ops/empty.h>

namespace fovea::nn {

LayerScaleImpl::LayerScaleImpl(int64_t dim, at::Device device) {
  gamma = register_parameter(
      "gamma", at::empty({dim}, at::TensorOptions().dtype(at::kFloat).device(device)));
}

at::Tensor LayerScaleImpl::forward(const at::Tensor& x) const {
  return run([&] { return x * gamma.to(x.scalar_type()); });
}

}  // namespace fovea::nn
