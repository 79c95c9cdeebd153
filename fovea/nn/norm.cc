#include "fovea/nn/norm.h"

#include <ATen/ops/empty.h>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/norm.h"

namespace fovea::nn {

NormKind norm_from_name(const std::string& name) {
  if (name == "layer_norm") return NormKind::kLayerNorm;
  if (name == "rms_norm") return NormKind::kRmsNorm;
  fail<ConfigError>("norm '{}' is unknown; expected layer_norm or rms_norm", name);
}

std::vector<std::string> norm_names() { return {"layer_norm", "rms_norm"}; }

NormImpl::NormImpl(int64_t dim, const NormOptions& options, at::Device device) : options_(options) {
  if (!options.has_affine) return;
  const auto tensor_options = at::TensorOptions().dtype(at::kFloat).device(device);
  weight = register_parameter("weight", at::empty({dim}, tensor_options));
  if (options.kind == NormKind::kLayerNorm) {
    bias = register_parameter("bias", at::empty({dim}, tensor_options));
  }
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  return run(
      [this](const at::Tensor& given) {
        return options_.kind == NormKind::kLayerNorm
                   ? kernels::layer_norm(given, weight, bias, options_.eps)
                   : kernels::rms_norm(given, weight, options_.eps);
      },
      x);
}

kernels::LinearInput NormImpl::for_linear(const at::Tensor& x) const {
  // What stands around the forward may give another tensor than the norm's.
  if (options_.kind != NormKind::kLayerNorm || !around_forward.empty()) return forward(x);
  kernels::NormedInput made_of;
  auto y = run([&] { return kernels::layer_norm(x, weight, bias, options_.eps, &made_of); });
  return {std::move(y), std::move(made_of)};
}

}  // namespace fovea::nn
