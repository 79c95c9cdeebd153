// The state of a run's checkpoint for other programs: weights and what the optimizer keeps, as
// torch keeps them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/nn/tensor_file.h"
#include "fovea/train/recipe/config.h"
#include "fovea/weights/moments.h"

namespace fovea::train {

struct RunState {
  TrainConfig config;
  int64_t step = 0;
  nn::NamedTensors weights;  // in the order of the model
  nn::NamedTensors average;  // the same, averaged; empty where the run has none
  weights::NamedMoments moments;
  std::vector<std::string> left_out;  // what torch has no place for: "fp8"
};

// path: a run folder or a checkpoint of one; which: of a run folder, "latest" or "best". Throws
// CheckpointError.
RunState load_run_state(const std::string& path, const std::string& which = "latest");

}  // namespace fovea::train
