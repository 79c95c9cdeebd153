// The state of an optimizer as training programs of torch leave it: in a file of torch.save
// ({"optimizer": optimizer.state_dict(), ...}), or in a folder of torch.distributed.checkpoint; and
// that of optax's Adam and SGD in a checkpoint of t5x, which is the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/weights/optimizer_kind.h"
#include "fovea/weights/torch_object.h"

namespace fovea::weights {

// One of torch's param_groups.
struct OptimizerGroup {
  std::vector<std::string> params = {};  // keys of the state, in order: "0", or parameters' names
  std::vector<std::string> names = {};   // of the parameters, where torch was told them; or empty
  // "lr", "weight_decay", "betas", "lr_scale" ...
  std::map<std::string, TorchObject> settings = {};

  // Of a setting; "betas.0" is the first of a list. Nothing: there is none, or it is no number.
  std::optional<double> number(std::string_view key) const;
};

struct OptimizerState {
  std::string optimizer;  // by its name in recipes: "adamw"
  // By slot ("exp_avg", "momentum_buffer"), by key: torch's index of the parameter ("0"), or its
  // name.
  std::map<std::string, std::map<std::string, at::Tensor>> slots;
  int64_t steps = 0;  // that each parameter has taken; 0: nothing there counts them
  std::vector<OptimizerGroup> groups;
  std::string place;  // the key it lies under: "optimizer"; empty: in the outermost dict

  // Of the parameters of groups, where there are any; else of those that have a state.
  std::vector<std::string> keys() const;
  // Of the parameters that something is kept for, sorted.
  std::vector<std::string> keys_with_state() const;
  bool is_by_index() const;
  // Of the parameter, by what is kept for it; nothing where nothing is.
  std::optional<std::vector<int64_t>> sizes_of(const std::string& key) const;
};

// Whether a tensor of this name is a part of an optimizer's state ("optimizer.state.0.exp_avg"),
// not a weight.
bool is_optimizer_tensor(std::string_view name);

// Throws DataError: no such file, damaged, hostile; CheckpointError: no optimizer, several, one
// that Fovea has not (or AdamW with amsgrad, Adam with weight decay in the gradient), a moment or
// step that is missing, steps that differ, keys that no group has.
OptimizerState read_optimizer_state(const std::string& path);
// Whether there is one, of any kind, whole or not. Throws DataError.
bool has_optimizer_state(const std::string& path);

}  // namespace fovea::weights
