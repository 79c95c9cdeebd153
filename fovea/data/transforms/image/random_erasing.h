// timm's random erasing (Zhong et al. 2017; timm 1.0.31, random_erasing.py), on normalised values.
#pragma once

#include <span>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/image/augment_configs.h"
#include "fovea/data/transforms/image/geometry.h"

namespace fovea::data {

// The box of one try for an image of this size; nullopt: ten tries did not fit. share: part of the
// area's range that a box may take, 1 / number of boxes.
std::optional<CropBox> draw_erasing_box(const RandomErasingConfig& config, ImageSize size,
                                        double share, RandomStream& random);

// image: [C, H, W], changed in place.
void erase_randomly(const RandomErasingConfig& config, ImageSize size, RandomStream& random,
                    std::span<float> image);

}  // namespace fovea::data
