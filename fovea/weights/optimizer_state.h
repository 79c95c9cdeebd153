// The state of torch's AdamW as training programs leave it: in a file of torch.save
// ({"optimizer": optimizer.state_dict(), ...}), or in a folder of torch.distributed.checkpoint; and
// that of optax's in a checkpoint of t5x, which is the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::weights {

// One of torch's param_groups.
struct OptimizerGroup {
  std::vector<std::string> params;        // keys of the state, in order: "0", or parameters' names
  std::vector<std::string> names;         // of the parameters, where torch was told them; or empty
  std::map<std::string, double> numbers;  // "lr", "weight_decay", "betas.0", "lr_scale" ...
};

struct OptimizerState {
  // By key: torch's index of the parameter ("0"), or its name.
  std::map<std::string, at::Tensor> exp_avg, exp_avg_sq;
  int64_t steps = 0;  // that each parameter has taken
  std::vector<OptimizerGroup> groups;
  std::string place;  // the key it lies under: "optimizer"; empty: in the outermost dict

  bool is_by_index() const;
};

// Whether a tensor of this name is a part of an optimizer's state ("optimizer.state.0.exp_avg"),
// not a weight.
bool is_optimizer_tensor(std::string_view name);

// Throws DataError: no such file, damaged, hostile; CheckpointError: no optimizer, several, another
// one than AdamW (or Adam without weight decay) or one with amsgrad, a moment or step that is
// missing, steps that differ, keys that no group has.
OptimizerState read_optimizer_state(const std::string& path);

}  // namespace fovea::weights
