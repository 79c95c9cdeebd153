// Which parameter stands behind each index of torch's optimizer state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fovea/weights/optimizer_state.h"

namespace fovea::weights {

// A weight of the file that the state belongs to, in the order of its state_dict, which is that of
// torch's named_parameters().
struct ForeignParameter {
  std::string name;   // there
  std::string fovea;  // here; empty: Fovea has none
  std::vector<int64_t> sizes;
};

// What the model that is trained here says of its parameters, by their names here.
struct ParameterRules {
  std::function<bool(const std::string&)> is_trained;
  std::function<bool(const std::string&)> has_no_weight_decay;  // of those of two or more dims
  std::function<int64_t(const std::string&)> layer_id;
};

// Those of a ViT of which Fovea's names of the parameters alone are known.
ParameterRules rules_of_names(const std::vector<std::string>& names);

// Whether torch was told the names, so that nothing is to be found out.
bool are_names_told(const OptimizerState& state);

// Key of the state -> name there. Where torch was told the names, those. Otherwise each of the ways
// in which training programs divide parameters into groups is tried:
//   one group; timm's two (without weight decay, then with; the model's embeddings without, or
//   with); the same two the other way round; timm's layer decay (a group for each layer and decay,
//   in the order in which they occur); UCF-VIT's (all but its embeddings, then these);
// over all parameters, and over those that are trained here alone. A way is right where number and
// sizes of its groups, the shape of every moment, and the groups' weight_decay and lr_scale are
// those of the file. Throws CheckpointError, naming `source`, where none is right, or two are that
// give different names.
std::map<std::string, std::string> parameter_names(const OptimizerState& state,
                                                   const std::vector<ForeignParameter>& parameters,
                                                   const ParameterRules& rules,
                                                   const std::string& source);

}  // namespace fovea::weights
