#include "fovea/weights/optimizer_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fovea/core/error.h"
#include "fovea/weights/optimizer_source.h"

namespace fovea::weights {
namespace {

constexpr std::string_view kStep = "step";

// "AdamW (amsgrad), SGD (nesterov, dampening) ...": what tells the optimizers.
std::string known_signs() {
  std::vector<std::string> list;
  for (const auto& kind : optimizer_kinds())
    list.push_back(fmt::format("{} ({})", kind.title, fmt::join(kind.signs, ", ")));
  return fmt::format("{}", fmt::join(list, ", "));
}

const OptimizerKind* kind_of(const OptimizerGroup& group) {
  for (const auto& kind : optimizer_kinds()) {
    const bool has_all = std::all_of(kind.signs.begin(), kind.signs.end(), [&](auto sign) {
      return group.settings.contains(std::string(sign));
    });
    if (has_all) return &kind;
  }
  return nullptr;
}

class StateReader {
 public:
  StateReader(OptimizerSource& source, const std::string& path) : source_(source), path_(path) {}

  OptimizerState read() {
    find_place();
    state_.groups = source_.groups(state_.place);
    find_kind();
    read_slots();
    check_groups();
    check_moments();
    find_steps();
    return std::move(state_);
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail<CheckpointError>("{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  void find_place() {
    std::set<std::string> places;
    for (const auto& tensor : source_.tensors()) {
      const auto name = state_name(tensor);
      if (name) places.insert(name->place);
    }
    if (places.empty()) {
      const auto of_groups = source_.places_of_groups();
      places.insert(of_groups.begin(), of_groups.end());
    }
    if (places.empty()) {
      refuse(
          "holds no state of an optimizer; expected optimizer.state_dict() of torch under a key, "
          "such as {{\"optimizer\": ...}}, or a DCP folder with it");
    }
    if (places.size() > 1)
      refuse("holds several optimizers, under {}; expected one", fmt::join(places, ", "));
    state_.place = *places.begin();
  }

  // By the settings of the groups; where there are none, by what is kept.
  void find_kind() {
    std::set<std::string_view> names;
    for (const auto& group : state_.groups) {
      if (!group.settings.contains("lr")) continue;
      const auto* kind = kind_of(group);
      if (kind == nullptr) refuse_kind(group);
      names.insert(kind->name);
    }
    if (names == std::set<std::string_view>{"adamw", "muon"}) names = {"muon"};
    if (names.size() > 1)
      refuse("its groups are of several optimizers: {}; expected one", fmt::join(names, ", "));
    kind_ = &optimizer_kind(names.empty() ? kind_by_slots() : *names.begin());
    state_.optimizer = kind_->name;
    for (const auto& group : state_.groups) check_adamw(group);
  }

  [[noreturn]] void refuse_kind(const OptimizerGroup& group) const {
    std::vector<std::string> keys;
    for (const auto& item : group.settings) keys.push_back(shown(item.first));
    refuse(
        "its param_groups have the keys {}, which are of no optimizer here; expected those of {}",
        fmt::join(keys, ", "), known_signs());
  }

  std::set<std::string> slots_there() const {
    std::set<std::string> slots;
    for (const auto& tensor : source_.tensors()) {
      const auto name = state_name(tensor);
      if (name && name->place == state_.place && name->slot != kStep) slots.insert(name->slot);
    }
    return slots;
  }

  std::string_view kind_by_slots() const {
    const auto there = slots_there();
    if (there.contains("row_var") || there.contains("variance")) return "adafactor";
    const bool has_momentum = there.contains("momentum_buffer");
    if (has_momentum) return there.contains("exp_avg") ? "muon" : "sgd";
    return "adamw";
  }

  // Other optimizers have states of the same names.
  void check_adamw(const OptimizerGroup& group) const {
    if (!group.settings.contains("amsgrad")) return;
    if (group.number("amsgrad").value_or(0) != 0) refuse("AdamW with amsgrad, which is not here");
    const bool is_coupled = group.number("decoupled_weight_decay") == 0.0;
    if (is_coupled && group.number("weight_decay").value_or(0) != 0)
      refuse("Adam with weight decay in the gradient (L2), which is not AdamW's");
  }

  void read_slots() {
    std::set<std::string> others;
    for (size_t i = 0; i < source_.tensors().size(); ++i) {
      const auto name = state_name(source_.tensors()[i]);
      if (!name || name->place != state_.place) continue;
      if (name->slot == kStep) {
        steps_[name->key] = one_number(source_.read(i), name->key);
      } else if (is_own_slot(name->slot)) {
        state_.slots[name->slot][name->key] = source_.read(i);
      } else {
        others.insert(name->slot);
      }
    }
    if (others.empty()) return;
    refuse("its optimizer keeps {}: it is another one than {}, whose state is {}",
           shown(fmt::format("{}", fmt::join(others, ", "))), kind_->title, kind_->slots_text());
  }

  bool is_own_slot(std::string_view slot) const {
    return std::any_of(kind_->slots.begin(), kind_->slots.end(), [&](const auto& set) {
      return std::find(set.begin(), set.end(), slot) != set.end();
    });
  }

  double one_number(const at::Tensor& tensor, const std::string& key) const {
    if (tensor.numel() != 1)
      refuse("the step of {} is a tensor of {} numbers", shown(key), tensor.numel());
    return tensor.to(at::kDouble).item<double>();
  }

  void check_groups() const {
    std::set<std::string> keys;
    for (const auto& group : state_.groups) {
      for (const auto& key : group.params) {
        if (!keys.insert(key).second) refuse("parameter {} is in two groups", shown(key));
      }
    }
    if (keys.empty() && state_.is_by_index())
      refuse("its parameters have numbers for names, and there are no param_groups to tell them");
    for (const auto& key : keys_with_state()) {
      if (!keys.empty() && !keys.contains(key)) {
        refuse("its state has parameter {}, which none of its groups of {} in all has", shown(key),
               keys.size());
      }
    }
  }

  std::set<std::string> keys_with_state() const {
    std::set<std::string> keys;
    for (const auto& [slot, tensors] : state_.slots) {
      for (const auto& item : tensors) keys.insert(item.first);
    }
    return keys;
  }

  // SGD without momentum keeps nothing.
  bool may_keep_nothing() const {
    return kind_->name == "sgd" &&
           std::all_of(state_.groups.begin(), state_.groups.end(),
                       [](const auto& group) { return group.number("momentum") == 0.0; });
  }

  void check_moments() const {
    const auto keys = keys_with_state();
    if (keys.empty() && !may_keep_nothing()) {
      refuse("its optimizer, {}, keeps nothing for any parameter: it has not taken a step",
             kind_->title);
    }
    for (const auto& key : keys) check_moments_of(key);
  }

  void check_moments_of(const std::string& key) const {
    std::vector<std::string> has;
    for (const auto& [slot, tensors] : state_.slots) {
      const auto found = tensors.find(key);
      if (found == tensors.end()) continue;
      has.push_back(slot);
      check_values(key, slot, found->second);
    }
    const auto set = std::find_if(kind_->slots.begin(), kind_->slots.end(), [&](const auto& slots) {
      return std::find(slots.begin(), slots.end(), has.front()) != slots.end();
    });
    for (const auto slot : *set) {
      if (std::find(has.begin(), has.end(), slot) == has.end())
        refuse("{} has {}, but no {}", shown(key), fmt::join(has, ", "), slot);
    }
    if (has.size() != set->size()) {
      refuse("{} has {}; expected {}", shown(key), fmt::join(has, ", "), kind_->slots_text());
    }
    check_sizes(key, has);
  }

  void check_values(const std::string& key, const std::string& slot,
                    const at::Tensor& tensor) const {
    if (!tensor.is_floating_point())
      refuse("{}: moments that are not floating-point numbers", shown(key));
    if (is_second_moment(slot) && tensor.numel() > 0 && !(tensor.min().item<double>() >= 0))
      refuse("{}: {} has values below 0 or that are none: no second moment", shown(key), slot);
  }

  void check_sizes(const std::string& key, const std::vector<std::string>& slots) const {
    const auto sizes = state_.sizes_of(key);
    for (const auto& slot : slots) {
      auto expected = *sizes;
      const bool has_sides = expected.size() >= 2;
      if (is_factor(slot) && has_sides) expected[expected.size() - (slot == "row_var" ? 1 : 2)] = 1;
      const auto found = state_.slots.at(slot).at(key).sizes();
      if ((!is_factor(slot) || has_sides) && found == at::IntArrayRef(expected)) continue;
      refuse("{}: {} is [{}], but {} [{}]", shown(key), slots.front(),
             fmt::join(state_.slots.at(slots.front()).at(key).sizes(), ", "), slot,
             fmt::join(found, ", "));
    }
  }

  void find_steps() {
    using Steps = OptimizerKind::Steps;
    if (kind_->steps == Steps::kOfParameters) {
      for (const auto& key : keys_with_state()) {
        // torch's Muon counts none for its matrices.
        const auto matrices = state_.slots.find("momentum_buffer");
        if (matrices == state_.slots.end() || !matrices->second.contains(key)) take_step_of(key);
      }
    } else if (kind_->steps == Steps::kOfGroups) {
      for (size_t g = 0; g < state_.groups.size(); ++g)
        take_step(fmt::format("group {}", g), state_.groups[g].number(kStep));
      if (state_.groups.empty()) refuse("no param_groups, which count its steps");
    }
    if (state_.steps > 0) return;
    // Under the keys of training programs, for want of a count of its own.
    for (const auto* key : {"step", "global_step"}) {
      const auto number = source_.top_number(key);
      if (number && *number >= 1) return take_step(fmt::format("the key {}", key), number);
    }
  }

  void take_step_of(const std::string& key) {
    const auto found = steps_.find(key);
    take_step(shown(key), found != steps_.end() ? std::optional(found->second)
                                                : source_.step(state_.place, key));
  }

  void take_step(const std::string& what, std::optional<double> step) {
    if (!step) refuse("{} has moments, but no step, without which they cannot go on", what);
    if (!(*step >= 1 && *step < 1e15) || *step != std::floor(*step))
      refuse("{} has taken {} steps; expected a whole number from 1", what, *step);
    const auto steps = static_cast<int64_t>(*step);
    if (state_.steps == 0) {
      state_.steps = steps;
      first_ = what;
    }
    if (state_.steps != steps) {
      refuse("{} has taken {} steps, but {} {}; expected one count for all", first_, state_.steps,
             what, steps);
    }
  }

  OptimizerSource& source_;
  const std::string& path_;
  OptimizerState state_;
  const OptimizerKind* kind_ = nullptr;
  std::map<std::string, double> steps_;
  std::string first_;  // whose count of steps is the state's
};

}  // namespace

std::optional<double> OptimizerGroup::number(std::string_view key) const {
  const auto dot = key.find('.');
  const auto found = settings.find(std::string(key.substr(0, dot)));
  if (found == settings.end()) return {};
  if (const auto* tensor = std::get_if<at::Tensor>(&found->second.value)) {
    if (tensor->numel() != 1) return {};
    return tensor->to(at::kDouble).item<double>();
  }
  if (dot == std::string_view::npos) return found->second.number();
  const auto* list = found->second.list();
  const auto index = std::string(key.substr(dot + 1));
  if (list == nullptr || !is_index(index) || std::stoull(index) >= list->items.size()) return {};
  return list->items[std::stoull(index)].number();
}

std::vector<std::string> OptimizerState::keys() const {
  std::vector<std::string> keys;
  for (const auto& group : groups)
    keys.insert(keys.end(), group.params.begin(), group.params.end());
  if (!keys.empty()) return keys;
  std::set<std::string> with_state;
  for (const auto& [slot, tensors] : slots) {
    for (const auto& item : tensors) with_state.insert(item.first);
  }
  return {with_state.begin(), with_state.end()};
}

bool OptimizerState::is_by_index() const {
  const auto all = keys();
  return std::all_of(all.begin(), all.end(), is_index);
}

std::optional<std::vector<int64_t>> OptimizerState::sizes_of(const std::string& key) const {
  std::optional<std::vector<int64_t>> factors;
  for (const auto& [slot, tensors] : slots) {
    const auto found = tensors.find(key);
    if (found == tensors.end()) continue;
    auto sizes = found->second.sizes().vec();
    if (!is_factor(slot)) return sizes;
    if (!factors) factors = std::vector<int64_t>(sizes.size(), 1);
    for (size_t d = 0; d < std::min(sizes.size(), factors->size()); ++d)
      (*factors)[d] = std::max((*factors)[d], sizes[d]);
  }
  return factors;
}

bool is_optimizer_tensor(std::string_view name) {
  if (state_name(name)) return true;
  // A step or learning rate of a group.
  return name.starts_with("param_groups.") || name.find(".param_groups.") != std::string_view::npos;
}

OptimizerState read_optimizer_state(const std::string& path) {
  const auto source = OptimizerSource::open(path);
  return StateReader(*source, path).read();
}

bool has_optimizer_state(const std::string& path) {
  const auto source = OptimizerSource::open(path);
  const auto& tensors = source->tensors();
  return std::any_of(tensors.begin(), tensors.end(), is_optimizer_tensor) ||
         !source->places_of_groups().empty();
}

}  // namespace fovea::weights
