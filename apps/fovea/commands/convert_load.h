// What `fovea convert` reads: any weights, under Fovea's names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/fovea/commands/convert_state.h"
#include "fovea/models/weights.h"
#include "fovea/nn/tensor_file.h"
#include "fovea/train/recipe/weights_metadata.h"
#include "fovea/weights/read_weights.h"

namespace fovea::app {

// Fovea's names and what is said of them.
struct Loaded {
  nn::NamedTensors tensors;
  models::LoadReport report;  // of the model that they were loaded into, where there was one
  weights::FoveaWeights file;
  std::string text;
  train::Metadata metadata = {};  // by which a safetensors file can be used alone
  int64_t num_heads = 0;          // of the model; 0: not known
  std::optional<StateToWrite> state = {};
};

// Throws ConfigError for options that say nothing of the source; DataError, CheckpointError.
Loaded load_source(const ConvertArguments& arguments);

}  // namespace fovea::app
