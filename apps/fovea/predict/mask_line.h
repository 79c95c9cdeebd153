// What `fovea predict` prints of a mask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/train/recipe/inference.h"

namespace fovea::app {

struct PredictedMask {
  std::string input;
  std::vector<std::string> files = {};
  std::vector<int64_t> sides = {};   // H, W or D, H, W
  std::vector<int64_t> voxels = {};  // of each class

  double share(size_t label) const;  // of all voxels, 0 to 1
};

// For people two lines, else a JSON object with the colours that pictures show the classes in, on
// standard output.
void say_mask(const PredictedMask& mask, const train::Inference& inference, bool as_json);

}  // namespace fovea::app
