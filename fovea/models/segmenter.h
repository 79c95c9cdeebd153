// What segmentation asks of a model.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::models {

// A model whose forward gives a value for each class and pixel or voxel:
// images [B, C, sides] -> logits [B, num_classes, sides], or, where it takes patches,
// -> [B, num_classes, L, p^d].
class Segmenter {
 public:
  virtual ~Segmenter() = default;
  // Sides of the images that one pass takes; larger ones are put together from windows of it.
  virtual std::vector<int64_t> window_size() const = 0;
};

}  // namespace fovea::models
