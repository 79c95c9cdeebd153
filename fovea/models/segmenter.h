// What segmentation asks of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/models/model.h"

namespace fovea::models {

// A model whose forward gives a value for each class and pixel or voxel, by what it derives from
// beside Model, publicly: class Own : public Model, public Segmenter.
// images [B, C, sides] or their adaptive patches -> logits [B, num_classes, sides], or, where it
// gives patches, [B, num_classes, L, p^d].
class Segmenter {
 public:
  virtual ~Segmenter() = default;
  // Sides of the images that one pass takes; larger ones are put together from windows of it.
  virtual std::vector<int64_t> window_size() const = 0;
  // Whether logits are those of the pixels of adaptive patches, not of the image.
  virtual bool gives_patches() const { return false; }
};

// Throws ConfigError where the model is none.
const Segmenter& segmenter_of(const Model& model);

}  // namespace fovea::models
