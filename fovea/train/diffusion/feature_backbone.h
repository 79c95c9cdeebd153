// A trained classifier as the judge of generated images.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "fovea/models/vit.h"

namespace fovea::train {

class FeatureBackbone {
 public:
  // target: a run folder or a weights file of a ViT (see load_inference). Throws ConfigError:
  // another model, or one for other images than in_chans channels and `dims` sides.
  FeatureBackbone(const std::string& target, int64_t in_chans, int64_t dims);

  // pixels: [B, C, H, W] or [B, C, D, H, W] within [0, 1] -> [B, F] float32: what the classifier's
  // head sees. Images of another size are resized linearly, then normalised as in the classifier's
  // own evaluation.
  at::Tensor features(const at::Tensor& pixels);

 private:
  std::shared_ptr<models::Vit> model_;
  at::Tensor mean_, std_;  // [C, 1, ...]
};

}  // namespace fovea::train
