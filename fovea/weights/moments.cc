#include "fovea/weights/moments.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/weights/optimizer_state.h"
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

// In the order of `order`; what is not in it behind, under its key.
nn::NamedTensors named(const std::map<std::string, at::Tensor>& moments,
                       const std::map<std::string, std::string>& names,
                       const std::vector<ForeignParameter>& order) {
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [key, tensor] : moments) {
    const auto name = names.find(key);
    by_name[name == names.end() ? key : name->second] = tensor;
  }
  nn::NamedTensors list;
  for (const auto& parameter : order) {
    const auto found = by_name.find(parameter.name);
    if (found == by_name.end()) continue;
    list.emplace_back(found->first, found->second);
    by_name.erase(found);
  }
  list.insert(list.end(), by_name.begin(), by_name.end());
  return list;
}

// Prefixes are taken off the names of moments as off those of weights.
nn::NamedTensors without_prefixes(nn::NamedTensors tensors) {
  WeightsFile file;
  file.tensors = std::move(tensors);
  take_off_prefixes(file);
  return std::move(file.tensors);
}

void check_no_sums(const Naming& naming, const nn::NamedTensors& moments, const std::string& path) {
  if (naming.adds_up.empty()) return;
  const Pattern pattern(naming.adds_up);
  for (const auto& item : moments) {
    if (!pattern.match(item.first)) continue;
    fail<CheckpointError>(
        "{}: {} with {}, where the class token and its position become one parameter; their "
        "moments do not. Start with the weights alone: init.optimizer=\"\"",
        path, naming.title, item.first);
  }
}

Conversion to_fovea_names(const Naming* naming, const nn::NamedTensors& moments, int64_t num_heads,
                          const std::string& path) {
  Conversion conversion;
  if (naming == nullptr) {
    conversion.tensors = moments;
    for (const auto& item : moments) conversion.report.same.push_back(item.first);
    return conversion;
  }
  check_no_sums(*naming, moments, path);
  conversion = to_fovea(*naming, moments, num_heads);
  if (!conversion.report.missing.empty()) {
    fail<CheckpointError>("{}: read as moments of {}, but parts are missing: {}", path,
                          naming->title, fmt::join(conversion.report.missing, ", "));
  }
  const std::map<std::string, at::Tensor> by_name(moments.begin(), moments.end());
  for (const auto& name : conversion.report.unexpected)
    conversion.tensors.emplace_back(name, by_name.at(name));
  return conversion;
}

}  // namespace

ForeignMoments read_moments(const std::string& path, const MomentsOptions& options) {
  auto state = read_optimizer_state(path);
  Weights weights;
  std::map<std::string, std::string> names;
  if (state.is_by_index()) {
    weights = weights_of_run(path, options);
    names = parameter_names(state, weights.parameters, options.rules, path);
  }
  const auto first = without_prefixes(named(state.exp_avg, names, weights.parameters));
  const auto second = without_prefixes(named(state.exp_avg_sq, names, weights.parameters));
  if (!state.is_by_index()) weights.naming = choose_naming(first, options.reading, path);
  auto conversion = to_fovea_names(weights.naming, first, options.reading.num_heads, path);
  ForeignMoments moments;
  moments.exp_avg_sq =
      to_fovea_names(weights.naming, second, options.reading.num_heads, path).tensors;
  moments.exp_avg = std::move(conversion.tensors);
  moments.report = std::move(conversion.report);
  moments.steps = state.steps;
  if (weights.naming != nullptr) moments.naming = weights.naming->name;
  if (!state.groups.empty()) moments.numbers = state.groups.front().numbers;
  for (const auto& group : state.groups) {
    const auto found = group.numbers.find("weight_decay");
    if (found != group.numbers.end()) moments.weight_decays.push_back(found->second);
  }
  auto& decays = moments.weight_decays;
  std::sort(decays.begin(), decays.end());
  decays.erase(std::unique(decays.begin(), decays.end()), decays.end());
  return moments;
}

}  // namespace fovea::weights
