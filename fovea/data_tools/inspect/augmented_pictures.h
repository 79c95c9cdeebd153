// The same sample under several draws of the training transforms, as the model would see it.
#pragma once

#include <cstdint>

#include "fovea/data/dataset.h"
#include "fovea/data/loader_options.h"
#include "fovea/data/pictures/pictures.h"

namespace fovea::data {

// An image with the colours of its mask's classes, as small as `side`.
Image masked_picture(Image rgb, const LabelMap& mask, int64_t side);

struct AugmentedOptions {
  uint64_t seed = 42;
  int64_t draws = 8;
  int64_t side = 128;  // pixels of the longer side of each picture
  SliceLayout layout = SliceLayout::kMatrix;
};

// The sample as stored, then what it becomes in epochs 0 to draws - 1 of a run with this seed, with
// `normalize` undone; of volumes the middle slice along depth (kCartesian: along width), in gray
// levels of its own. Classes of masks are mixed in. Throws DataError, ConfigError.
std::vector<Image> augmented_pictures(const Dataset& dataset, const SampleTransforms& transforms,
                                      int64_t index, const AugmentedOptions& options);

// The sample after the transforms, in the draw of epoch 0: an image without its normalisation, or a
// volume with its mask. Throws DataError, ConfigError.
Sample transformed_sample(const Dataset& dataset, const SampleTransforms& transforms, int64_t index,
                          uint64_t seed);

}  // namespace fovea::data
