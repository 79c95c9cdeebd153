// The page beside the overview of a large image.
#pragma once

#include <string>

#include "apps/fovea/predict/mask_line.h"
#include "fovea/data/image/image_view.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::app {

// The overview with a legend: colour, name, pixels and share of each class that occurs.
std::string overview_page(const PredictedMask& mask, const data::Image& overview,
                          const train::Inference& inference);

}  // namespace fovea::app
