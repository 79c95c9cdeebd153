#include "fovea/models/segmenter.h"

#include "fovea/core/error.h"

namespace fovea::models {

const Segmenter& segmenter_of(const Model& model) {
  const auto* segmenter = model.as_segmenter();
  if (segmenter == nullptr) {
    fail<ConfigError>(
        "task: segmentation needs a model that gives a class to each pixel, such as unetr; set "
        "model.name (a model of one's own derives from Segmenter)");
  }
  return *segmenter;
}

}  // namespace fovea::models
