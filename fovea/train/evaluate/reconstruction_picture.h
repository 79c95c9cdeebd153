// Pictures of what a masked autoencoder saw and made of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::train {

// images side by side on white. Each: [C, H, W], or [C, D, H, W] of which the middle slice along D
// is shown; three channels as colours, else the first one in gray. Black and white are the lowest
// and highest value of the first image; what lies beyond is cut off. Small images are drawn larger,
// pixel by pixel. Values that are not finite are drawn in middle gray: a masked patch is one of
// NaN.
data::Image side_by_side(const std::vector<at::Tensor>& images);

}  // namespace fovea::train
