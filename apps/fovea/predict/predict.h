// What `fovea predict` does for each task.
#pragma once

#include <string>
#include <vector>

#include "apps/fovea/inference_options.h"

namespace fovea::app {

struct PredictArguments {
  InferenceArguments inference;
  std::vector<std::string> inputs;
  std::string out;
  std::vector<std::string> intermediates;
  int64_t top = 5;
  bool json = false;
};

// Labels and scores of image or volume files.
void predict_classes(const PredictArguments& arguments, const train::Inference& inference);

}  // namespace fovea::app
