#include "fovea/models/model.h"

#include <ATen/core/grad_mode.h>

#include "fovea/core/error.h"

namespace fovea::models {

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
