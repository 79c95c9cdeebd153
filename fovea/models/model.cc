#include "fovea/models/model.h"

#include <ATen/core/grad_mode.h>

#include "fovea/core/error.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/mae.h"
#include "fovea/models/segmenter.h"

namespace fovea::models {

const Segmenter* Model::as_segmenter() const { return dynamic_cast<const Segmenter*>(this); }
const Mae* Model::as_autoencoder() const { return dynamic_cast<const Mae*>(this); }
const DiffusionVit* Model::as_denoiser() const { return dynamic_cast<const DiffusionVit*>(this); }

void Model::init_weights(uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) init_parameter(item.key(), item.value(), seed);
}

at::Tensor Model::pooled_features(const ModelInput& /*input*/) const {
  fail<ConfigError>(
      "the model has no features of a whole sample; expected a classifier with a pooling other "
      "than '', or a model with an encoder");
}

at::Tensor Model::classify(const at::Tensor& /*features*/) const {
  fail<ConfigError>(
      "the model has no head that stands on features; expected a classifier such as vit");
}

}  // namespace fovea::models
