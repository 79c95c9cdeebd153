#include "fovea/weights/optimizer_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "fovea/weights/kind_of_state.h"
#include "fovea/weights/optimizer_refusal.h"
#include "fovea/weights/optimizer_source.h"
#include "fovea/weights/optimizer_state_check.h"

namespace fovea::weights {
namespace {

constexpr std::string_view kStep = "step";

class StateReader {
 public:
  StateReader(OptimizerSource& source, const std::string& path) : source_(source), path_(path) {}

  OptimizerState read() {
    find_place();
    state_.groups = source_.groups(state_.place);
    kind_ = &kind_of_state(state_.groups, slots_there(), path_);
    state_.optimizer = kind_->name;
    read_slots();
    check_state(state_, *kind_, path_);
    find_steps();
    return std::move(state_);
  }

 private:
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
      refuse_state(
          path_,
          "holds no state of an optimizer; expected optimizer.state_dict() of torch under a key, "
          "such as {{\"optimizer\": ...}}, or a DCP folder with it");
    }
    if (places.size() > 1)
      refuse_state(path_, "holds several optimizers, under {}; expected one",
                   fmt::join(places, ", "));
    state_.place = *places.begin();
  }

  std::set<std::string> slots_there() const {
    std::set<std::string> slots;
    for (const auto& tensor : source_.tensors()) {
      const auto name = state_name(tensor);
      if (name && name->place == state_.place && name->slot != kStep) slots.insert(name->slot);
    }
    return slots;
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
    refuse_state(path_, "its optimizer keeps {}: it is another one than {}, whose state is {}",
                 shown(fmt::format("{}", fmt::join(others, ", "))), kind_->title,
                 kind_->slots_text());
  }

  bool is_own_slot(std::string_view slot) const {
    return std::any_of(kind_->slots.begin(), kind_->slots.end(), [&](const auto& set) {
      return std::find(set.begin(), set.end(), slot) != set.end();
    });
  }

  double one_number(const at::Tensor& tensor, const std::string& key) const {
    if (tensor.numel() != 1)
      refuse_state(path_, "the step of {} is a tensor of {} numbers", shown(key), tensor.numel());
    return tensor.to(at::kDouble).item<double>();
  }

  void find_steps() {
    using Steps = OptimizerKind::Steps;
    if (kind_->steps == Steps::kOfParameters) {
      for (const auto& key : state_.keys_with_state()) {
        // torch's Muon counts none for its matrices.
        const auto matrices = state_.slots.find("momentum_buffer");
        if (matrices == state_.slots.end() || !matrices->second.contains(key)) take_step_of(key);
      }
    } else if (kind_->steps == Steps::kOfGroups) {
      for (size_t g = 0; g < state_.groups.size(); ++g)
        take_step(fmt::format("group {}", g), state_.groups[g].number(kStep));
      if (state_.groups.empty()) refuse_state(path_, "no param_groups, which count its steps");
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
    if (!step)
      refuse_state(path_, "{} has moments, but no step, without which they cannot go on", what);
    if (!(*step >= 1 && *step < 1e15) || *step != std::floor(*step))
      refuse_state(path_, "{} has taken {} steps; expected a whole number from 1", what, *step);
    const auto steps = static_cast<int64_t>(*step);
    if (state_.steps == 0) {
      state_.steps = steps;
      first_ = what;
    }
    if (state_.steps != steps) {
      refuse_state(path_, "{} has taken {} steps, but {} {}; expected one count for all", first_,
                   state_.steps, what, steps);
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
  return keys.empty() ? keys_with_state() : keys;
}

std::vector<std::string> OptimizerState::keys_with_state() const {
  std::set<std::string> keys;
  for (const auto& [slot, tensors] : slots) {
    for (const auto& item : tensors) keys.insert(item.first);
  }
  return {keys.begin(), keys.end()};
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
