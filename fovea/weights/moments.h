// AdamW's moments of a foreign run under Fovea's names: they follow the same tables as weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/conversion.h"
#include "fovea/weights/optimizer_names.h"
#include "fovea/weights/read_weights.h"

namespace fovea::weights {

struct MomentsOptions {
  // The weights of the run, which tell names where the state has numbers.
  std::string weights;
  ReadOptions reading = {};
  ParameterRules rules = {};
};

struct ForeignMoments {
  nn::NamedTensors exp_avg, exp_avg_sq;  // the same names in the same order
  int64_t steps = 0;
  std::string naming;                     // "hf_vit"; empty: names as they stand
  ConversionReport report;                // of exp_avg; exp_avg_sq's is the same
  std::map<std::string, double> numbers;  // of the first group: "lr", "eps", "betas.0" ...
  std::vector<double> weight_decays;      // of the groups, each once, rising
};

// Names that no rule knows come as they stand. Throws what read_optimizer_state and parameter_names
// throw, and CheckpointError: weights whose order is not torch's, parts of joined tensors missing,
// a naming whose weights are sums.
ForeignMoments read_moments(const std::string& path, const MomentsOptions& options);

}  // namespace fovea::weights
