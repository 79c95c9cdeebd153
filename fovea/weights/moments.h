// What another system's optimizer keeps, under Fovea's names of the parameters: moments follow the
// same tables as weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/conversion.h"
#include "fovea/weights/optimizer_names.h"
#include "fovea/weights/optimizer_state.h"
#include "fovea/weights/read_weights.h"

namespace fovea::weights {

struct MomentsOptions {
  // The weights of the run, which tell names where the state has numbers.
  std::string weights;
  ReadOptions reading = {};
  ParameterRules rules = {};
};

// The state of an optimizer by names of parameters.
struct NamedMoments {
  std::string optimizer;  // by its name in recipes: "adamw"
  // By slot: "exp_avg", "exp_avg_sq", "momentum_buffer" ...
  std::map<std::string, nn::NamedTensors> slots;
  int64_t steps = 0;  // that each parameter has taken; 0: nothing there counts them
  // params: the names; each parameter that the optimizer has, in its order. Empty: nobody says.
  std::vector<OptimizerGroup> groups;

  // Names of the parameters that have a state, each once.
  std::vector<std::string> names() const;
  // Of a parameter, by what is kept for it; see OptimizerState.
  std::map<std::string, std::vector<int64_t>> sizes() const;
  // Of the groups, each once, rising.
  std::vector<double> weight_decays() const;
};

struct ForeignMoments : NamedMoments {
  std::string naming;  // "hf_vit"; empty: names as they stand
  std::string place;   // see OptimizerState
};

// Names that no rule knows come as they stand. Throws what read_optimizer_state and parameter_names
// throw, and CheckpointError: weights whose order is not torch's, parts of joined tensors missing,
// a naming whose weights are sums, factors of tensors that are joined.
ForeignMoments read_moments(const std::string& path, const MomentsOptions& options);

// The same with the names and layout of another system, as from_fovea gives weights. What it has no
// name for is left out and named in `unexpected`. Throws ConfigError: a naming that is only read,
// or whose weights are not made of Fovea's one by one; CheckpointError: factors of tensors that are
// divided.
NamedMoments moments_from_fovea(const Naming& naming, const NamedMoments& moments,
                                std::vector<std::string>& unexpected, int64_t num_heads = 0);

}  // namespace fovea::weights
