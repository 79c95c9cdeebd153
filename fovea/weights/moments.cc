#include "fovea/weights/moments.h"

#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "fovea/core/error.h"
#include "fovea/weights/weights_file.h"

namespace fovea::weights {
namespace {

// The weights beside the state, in torch's order, and whose names they are.
struct Weights {
  std::vector<ForeignParameter> parameters;
  const Naming* naming = nullptr;
};

Weights weights_of_run(const std::string& path, const MomentsOptions& options) {
  auto file = read_weights_file(options.weights, options.reading.key);
  if (file.format != "torch" && file.format != "DCP") {
    fail<CheckpointError>(
        "{}: its parameters have numbers for names, and {} is a {} file, which does not keep the "
        "order that they count; name the file of the run itself in init.weights",
        path, options.weights, file.format);
  }
  Weights weights;
  weights.naming = choose_naming(file.tensors, options.reading, options.weights);
  std::vector<std::string> names;
  for (const auto& item : file.tensors) names.push_back(item.first);
  const auto here = weights.naming == nullptr ? names : fovea_names(*weights.naming, names);
  for (size_t i = 0; i < names.size(); ++i) {
    // No parameter, and so not counted: TransformerEngine's _extra_state, a norm's count of
    // batches.
    if (!file.tensors[i].second.is_floating_point()) continue;
    weights.parameters.push_back({names[i], here[i], file.tensors[i].second.sizes().vec()});
  }
  return weights;
}

// A parameter of the state: its key there, and its name without the prefixes that are taken off the
// names of weights.
struct Named {
  std::string key, name;
};

// In the order of `order`; what is not in it behind, by name.
std::vector<Named> named(const OptimizerState& state,
                         const std::map<std::string, std::string>& names,
                         const std::vector<ForeignParameter>& order) {
  std::map<std::string, std::string> keys;  // by name
  for (const auto& key : state.keys()) {
    const auto name = names.find(key);
    keys[name == names.end() ? key : name->second] = key;
  }
  WeightsFile file;  // its tensors: numbers of `list`, which go along with their names
  std::vector<std::string> list;
  const auto add = [&](const std::string& name, const std::string& key) {
    file.tensors.emplace_back(name, at::empty({static_cast<int64_t>(list.size()), 0}));
    list.push_back(key);
  };
  for (const auto& parameter : order) {
    const auto found = keys.find(parameter.name);
    if (found == keys.end()) continue;
    add(found->first, found->second);
    keys.erase(found);
  }
  for (const auto& [name, key] : keys) add(name, key);
  take_off_prefixes(file);
  std::vector<Named> result;
  for (const auto& [name, number] : file.tensors)
    result.push_back({list[static_cast<size_t>(number.size(0))], name});
  return result;
}

nn::NamedTensors slot_of(const std::map<std::string, at::Tensor>& tensors,
                         const std::vector<Named>& parameters) {
  nn::NamedTensors list;
  for (const auto& [key, name] : parameters) {
    const auto found = tensors.find(key);
    if (found != tensors.end()) list.emplace_back(name, found->second);
  }
  return list;
}

void check_no_sums(const Naming& naming, const std::vector<Named>& parameters,
                   const std::string& path) {
  if (naming.adds_up.empty()) return;
  const Pattern pattern(naming.adds_up);
  for (const auto& item : parameters) {
    if (!pattern.match(item.name)) continue;
    fail<CheckpointError>(
        "{}: {} with {}, where the class token and its position become one parameter; their "
        "moments do not. Start with the weights alone: init.optimizer=\"\"",
        path, naming.title, item.name);
  }
}

// Rows and columns of one matrix are not those of several that are joined, nor of its transpose.
void check_factors(const nn::NamedTensors& before, const nn::NamedTensors& after,
                   const std::string& slot, const std::string& source) {
  if (!is_factor(slot)) return;
  std::set<const void*> same;
  for (const auto& item : before) same.insert(item.second.unsafeGetTensorImpl());
  for (const auto& [name, tensor] : after) {
    if (same.contains(tensor.unsafeGetTensorImpl())) continue;
    fail<CheckpointError>(
        "{}: {} of {} is of a matrix that is laid out otherwise here; such factors cannot follow "
        "it. Take the weights alone",
        source, slot, name);
  }
}

nn::NamedTensors to_fovea_names(const Naming* naming, const nn::NamedTensors& moments,
                                const std::string& slot, int64_t num_heads,
                                const std::string& path) {
  if (naming == nullptr) return moments;
  auto conversion = to_fovea(*naming, moments, num_heads);
  if (!conversion.report.missing.empty()) {
    fail<CheckpointError>("{}: read as moments of {}, but parts are missing: {}", path,
                          naming->title, fmt::join(conversion.report.missing, ", "));
  }
  check_factors(moments, conversion.tensors, slot, path);
  std::set<std::string> there;
  for (const auto& item : conversion.tensors) there.insert(item.first);
  const std::map<std::string, at::Tensor> by_name(moments.begin(), moments.end());
  for (const auto& name : conversion.report.unexpected) {
    if (!there.contains(name) && by_name.contains(name))
      conversion.tensors.emplace_back(name, by_name.at(name));
  }
  return std::move(conversion.tensors);
}

// The groups with names here. Throws CheckpointError where what is joined here was in two.
std::vector<OptimizerGroup> groups_by_name(const OptimizerState& state,
                                           const std::vector<Named>& parameters,
                                           const Naming* naming, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& item : parameters) names.push_back(item.name);
  const auto here = naming == nullptr ? names : fovea_names(*naming, names);
  std::map<std::string, std::string> by_key;
  for (size_t i = 0; i < parameters.size(); ++i)
    by_key[parameters[i].key] = here[i].empty() ? names[i] : here[i];
  std::map<std::string, size_t> group_of;
  std::vector<OptimizerGroup> groups;
  for (size_t g = 0; g < state.groups.size(); ++g) {
    auto& group = groups.emplace_back();
    group.settings = state.groups[g].settings;
    for (const auto& key : state.groups[g].params) {
      const auto found = by_key.find(key);
      if (found == by_key.end()) continue;
      const auto [place, is_new] = group_of.try_emplace(found->second, g);
      if (is_new) group.params.push_back(found->second);
      if (place->second == g) continue;
      fail<CheckpointError>(
          "{}: parts of {} are in two groups of its optimizer; expected them in one, for they are "
          "one parameter here",
          path, found->second);
    }
  }
  return groups;
}

}  // namespace

std::vector<std::string> NamedMoments::names() const {
  std::vector<std::string> names;
  std::set<std::string> done;
  for (const auto& [slot, tensors] : slots) {
    for (const auto& item : tensors) {
      if (done.insert(item.first).second) names.push_back(item.first);
    }
  }
  return names;
}

std::map<std::string, std::vector<int64_t>> NamedMoments::sizes() const {
  OptimizerState state;
  for (const auto& [slot, tensors] : slots)
    state.slots[slot].insert(tensors.begin(), tensors.end());
  std::map<std::string, std::vector<int64_t>> sizes;
  for (const auto& name : names()) sizes[name] = *state.sizes_of(name);
  return sizes;
}

std::vector<double> NamedMoments::weight_decays() const {
  std::set<double> decays;
  for (const auto& group : groups) {
    if (const auto decay = group.number("weight_decay")) decays.insert(*decay);
  }
  return {decays.begin(), decays.end()};
}

ForeignMoments read_moments(const std::string& path, const MomentsOptions& options) {
  auto state = read_optimizer_state(path);
  Weights weights;
  std::map<std::string, std::string> names;
  const bool has_order = state.is_by_index() && !are_names_told(state);
  if (state.is_by_index()) {
    if (has_order) weights = weights_of_run(path, options);
    names = parameter_names(state, weights.parameters, options.rules, path);
  }
  const auto parameters = named(state, names, weights.parameters);
  if (!has_order) {
    nn::NamedTensors as_tensors;
    for (const auto& item : parameters) as_tensors.emplace_back(item.name, at::Tensor());
    weights.naming = choose_naming(as_tensors, options.reading, path);
  }
  if (weights.naming != nullptr) check_no_sums(*weights.naming, parameters, path);
  ForeignMoments moments;
  moments.optimizer = state.optimizer;
  moments.steps = state.steps;
  moments.place = state.place;
  for (const auto& [slot, tensors] : state.slots)
    moments.slots[slot] = to_fovea_names(weights.naming, slot_of(tensors, parameters), slot,
                                         options.reading.num_heads, path);
  moments.groups = groups_by_name(state, parameters, weights.naming, path);
  if (weights.naming != nullptr) moments.naming = weights.naming->name;
  return moments;
}

NamedMoments moments_from_fovea(const Naming& naming, const NamedMoments& moments,
                                std::vector<std::string>& unexpected, int64_t num_heads) {
  if (naming.before_writing != nullptr) {
    fail<ConfigError>(
        "{}: its tokens are not made of Fovea's one by one, and moments do not follow; write the "
        "weights alone",
        naming.title);
  }
  NamedMoments written;
  written.optimizer = moments.optimizer;
  written.steps = moments.steps;
  std::map<std::string, std::vector<std::string>> targets;  // by the name here
  std::set<std::string> without;
  for (const auto& [slot, tensors] : moments.slots) {
    auto conversion = from_fovea(naming, tensors, num_heads);
    check_factors(tensors, conversion.tensors, slot, std::string(naming.title));
    for (size_t i = 0; i < conversion.tensors.size(); ++i) {
      auto& list = targets[conversion.origins[i]];
      const auto& name = conversion.tensors[i].first;
      if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
    }
    without.insert(conversion.report.unexpected.begin(), conversion.report.unexpected.end());
    written.slots[slot] = std::move(conversion.tensors);
  }
  for (const auto& group : moments.groups) {
    auto& to = written.groups.emplace_back();
    to.settings = group.settings;
    for (const auto& name : group.params) {
      const auto found = targets.find(name);
      if (found != targets.end()) {
        to.params.insert(to.params.end(), found->second.begin(), found->second.end());
      } else if (!without.contains(name)) {  // without a state
        to.params.push_back(name);
      }
    }
  }
  unexpected.assign(without.begin(), without.end());
  return written;
}

}  // namespace fovea::weights
