// Where the state of an optimizer lies: what a file of torch.save, a folder of
// torch.distributed.checkpoint and a checkpoint of t5x have alike.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/weights/optimizer_state.h"

namespace fovea::weights {

// "optimizer.state.0.exp_avg": under "optimizer", of key "0", the slot "exp_avg".
struct StateName {
  std::string place, key, slot;
};
std::optional<StateName> state_name(std::string_view name);

// True for what torch numbers parameters and groups with.
bool is_index(const std::string& key);

class GroupsBuilder;

class OptimizerSource {
 public:
  // Throws DataError: none of the three, damaged, hostile.
  static std::unique_ptr<OptimizerSource> open(const std::string& path);
  virtual ~OptimizerSource() = default;

  // Names, in the order of the saved dict.
  const std::vector<std::string>& tensors() const { return tensors_; }
  virtual at::Tensor read(size_t i) = 0;
  // Where param_groups lie: "optimizer".
  virtual std::vector<std::string> places_of_groups() const = 0;
  // The groups there; tensors may be among their settings.
  std::vector<OptimizerGroup> groups(const std::string& place);
  // A step of a parameter that is a plain number.
  virtual std::optional<double> step(const std::string& place, const std::string& key) const = 0;
  // A number in the outermost dict.
  virtual std::optional<double> top_number(const std::string& key) const = 0;

 protected:
  virtual void add_groups(const std::string& place, GroupsBuilder& groups) const = 0;

  std::vector<std::string> tensors_;
};

}  // namespace fovea::weights
