// Where adaptive patching puts its patches, drawn over a sample.
#pragma once

#include <cstdint>
#include <optional>

#include "fovea/data/adaptive/config.h"
#include "fovea/data/dataset.h"
#include "fovea/data/pictures/pictures.h"

namespace fovea::data {

struct TreePicture {
  Image picture;         // of a volume: its middle slices side by side
  int64_t leaves = 0;    // of the first tree, where each channel has one
  int64_t smallest = 0;  // side of the smallest leaf, in pixels or voxels
  int64_t largest = 0;
  GrayWindow window = {};  // of a volume: values that are black and white to the edge detector
};

// The tree of the sample's image or volume, as `config` grows it for evaluation (nothing is drawn
// at random), with the picture's longest side, or a volume's, about `side` pixels. own_range: in
// place of config.value_range a volume's gray_window is used. Throws ConfigError, DataError.
TreePicture tree_picture(const Sample& sample, const AdaptivePatchingConfig& config,
                         SliceLayout layout, int64_t side, bool own_range);

}  // namespace fovea::data
