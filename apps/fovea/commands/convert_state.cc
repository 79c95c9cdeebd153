#include "apps/fovea/commands/convert_state.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/state/parameter_rules.h"
#include "fovea/weights/optimizer_writer.h"
#include "fovea/weights/torch_writer.h"
#include "fovea/weights/weights_file.h"

namespace fovea::app {
namespace {

// timm's key of averaged weights, which init.optimizer reads as well.
constexpr const char* kAverageKey = "state_dict_ema";

bool is_torch_format(const std::string& format) { return format == "torch" || format == "DCP"; }

std::set<std::string> names_of(const nn::NamedTensors& tensors) {
  std::set<std::string> names;
  for (const auto& item : tensors) names.insert(item.first);
  return names;
}

weights::ForeignMoments read_moments(const ConvertArguments& arguments,
                                     const nn::NamedTensors& weights, int64_t num_heads) {
  weights::MomentsOptions options;
  options.weights = arguments.source;
  options.reading = {.from = arguments.from, .key = arguments.key, .num_heads = num_heads};
  if (arguments.model.empty()) {
    const auto names = names_of(weights);
    options.rules = weights::rules_of_names({names.begin(), names.end()});
    return weights::read_moments(arguments.source, options);
  }
  const auto config = train::find_model(arguments.model).config;
  options.reading.known = models::names_of_parameters(config.model);
  const auto model = models::build_model(config.model, at::kMeta);
  options.rules = train::parameter_rules(*model, [](const std::string&) { return true; });
  return weights::read_moments(arguments.source, options);
}

// Moments without their weights, or of others, would be found out by whoever loads them.
void check_are_of(const weights::NamedMoments& moments, const nn::NamedTensors& weights,
                  const std::string& source) {
  const std::map<std::string, at::Tensor> by_name(weights.begin(), weights.end());
  std::vector<std::string> faults;
  for (const auto& [name, sizes] : moments.sizes()) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      faults.push_back(name + ": no such weight");
    } else if (found->second.sizes() != at::IntArrayRef(sizes)) {
      faults.push_back(fmt::format("{}: [{}], the weight [{}]", name, fmt::join(sizes, ", "),
                                   fmt::join(found->second.sizes(), ", ")));
    }
  }
  if (faults.empty()) return;
  constexpr size_t kShown = 6;
  const auto count = faults.size();
  faults.resize(std::min(count, kShown));
  fail<CheckpointError>(
      "{}: {} moments are not of the weights that are written: {}{}\nNothing was written; "
      "--weights-only leaves the state out",
      source, count, fmt::join(faults, "; "), count > kShown ? "; ..." : "");
}

// With --partial, moments of what is left out are left out too.
void keep_those_of(const nn::NamedTensors& weights, weights::NamedMoments& moments) {
  const auto names = names_of(weights);
  for (auto& [slot, tensors] : moments.slots)
    std::erase_if(tensors, [&](const auto& item) { return !names.contains(item.first); });
}

// The parameters of groups whose weights are not there: frozen ones that another system alone has.
void keep_groups_of(const nn::NamedTensors& weights, weights::NamedMoments& moments) {
  const auto names = names_of(weights);
  for (auto& group : moments.groups)
    std::erase_if(group.params, [&](const std::string& name) { return !names.contains(name); });
}

// The averaged weights of the file; what else of its tensors stays behind is named.
nn::NamedTensors read_average(const ConvertArguments& arguments, const weights::FoveaWeights& file,
                              int64_t num_heads) {
  if (file.key == kAverageKey || !weights::has_tensors_under(arguments.source, kAverageKey))
    return {};
  auto average = weights::read_weights(
      arguments.source, {.from = arguments.from, .key = kAverageKey, .num_heads = num_heads});
  return std::move(average.tensors);
}

// Tops of tensors that are neither weights, nor an optimizer's, nor the average.
std::vector<std::string> other_tensors(const weights::FoveaWeights& file) {
  std::set<std::string> tops;
  for (const auto& name : file.left_out) {
    const auto top = name.substr(0, name.find('.'));
    if (!weights::is_optimizer_tensor(name) && top != kAverageKey) tops.insert(top);
  }
  return {tops.begin(), tops.end()};
}

}  // namespace

bool ConvertArguments::is_to_torch() const {
  const auto ending = std::filesystem::path(target).extension();
  return to == "pt" || (!is_to_dcp() && (ending == ".pt" || ending == ".pth" || ending == ".bin" ||
                                         ending == ".ckpt"));
}

std::string StateToWrite::text() const {
  const auto& kind = weights::optimizer_kind(moments.optimizer);
  const auto steps = moments.steps > 0 ? fmt::format(" after {} steps", moments.steps)
                                       : std::string(", which keeps no count of steps");
  auto line =
      fmt::format("{}{}, {} parameters in {} group{}", kind.title, steps, moments.names().size(),
                  std::max<size_t>(moments.groups.size(), 1), moments.groups.size() > 1 ? "s" : "");
  if (!average.empty()) line += fmt::format("; averaged weights under \"{}\"", kAverageKey);
  if (!values.keys.empty()) {
    std::vector<std::string> keys;
    for (const auto& key : values.keys) keys.push_back(weights::text_of(key));
    line += fmt::format("; {}", fmt::join(keys, ", "));
  }
  if (!left_out.empty()) line += fmt::format("\n  left out: {}", fmt::join(left_out, ", "));
  return line;
}

bool takes_state(const ConvertArguments& arguments, const std::string& format) {
  const bool has_place = arguments.is_to_dcp() || arguments.is_to_torch();
  if (!arguments.optimizer) {
    const bool is_turned = (format == "torch" && arguments.is_to_dcp()) ||
                           (format == "DCP" && arguments.is_to_torch());
    return is_turned && !arguments.weights_only && !arguments.skip_head && arguments.key.empty() &&
           weights::has_optimizer_state(arguments.source);
  }
  if (arguments.weights_only)
    fail<ConfigError>("found --optimizer and --weights-only; leave one of them out");
  if (!has_place) {
    fail<ConfigError>(
        "{}: --optimizer is for a file of torch or a folder of torch.distributed.checkpoint; "
        "expected a name that ends in .pt, .pth, .bin or .ckpt, --to pt, or --to dcp",
        arguments.target);
  }
  if (format == "t5x") {
    fail<ConfigError>(
        "{}: the state of optax's optimizers lacks the settings that torch keeps beside its own; "
        "leave --optimizer out, or go on with it: fovea train with init.optimizer",
        arguments.source);
  }
  if (!format.empty() && !is_torch_format(format)) {
    fail<ConfigError>("{}: a {} file holds weights alone; leave --optimizer out", arguments.source,
                      format);
  }
  if (arguments.skip_head) {
    fail<ConfigError>(
        "found --optimizer and --skip-head, which leaves weights out that the "
        "moments of the head belong to; leave one of them out");
  }
  if (arguments.key == kAverageKey || arguments.key == "model_ema") {
    fail<ConfigError>(
        "found --optimizer and --key {}: the moments belong to the weights that were "
        "trained, not to their average; leave one of them out",
        arguments.key);
  }
  return true;
}

StateToWrite state_of_run(train::RunState& run) {
  StateToWrite state;
  state.moments = std::move(run.moments);
  state.average = std::move(run.average);
  state.values.add("step", run.step);
  state.left_out = std::move(run.left_out);
  return state;
}

StateToWrite state_of_file(const ConvertArguments& arguments, const weights::FoveaWeights& file,
                           const nn::NamedTensors& weights, int64_t num_heads) {
  StateToWrite state;
  auto moments = read_moments(arguments, weights, num_heads);
  if (arguments.partial) keep_those_of(weights, moments);
  check_are_of(moments, weights, arguments.source);
  keep_groups_of(weights, moments);
  auto plain = weights::read_plain_values(arguments.source, moments.place);
  const bool is_alone = moments.place.find('.') == std::string::npos;
  if (!moments.place.empty() && is_alone) state.optimizer_key = moments.place;
  if (!file.key.empty() && is_alone) state.weights_key = file.key;
  state.moments = std::move(moments);
  state.average = read_average(arguments, file, num_heads);
  state.values = std::move(plain.values);
  state.left_out = other_tensors(file);
  state.left_out.insert(state.left_out.end(), plain.left_out.begin(), plain.left_out.end());
  return state;
}

void forget_what_is_taken(std::vector<std::string>& left_out) {
  std::erase_if(left_out, [](const std::string& name) {
    return weights::is_optimizer_tensor(name) || name.starts_with(kAverageKey + std::string("."));
  });
}

weights::TorchDict saved_dict(const ConvertArguments& arguments, const weights::Naming& naming,
                              const nn::NamedTensors& written, const StateToWrite& state,
                              int64_t num_heads) {
  std::vector<std::string> unexpected;
  const auto moments = weights::moments_from_fovea(naming, state.moments, unexpected, num_heads);
  const auto keys =
      arguments.is_to_dcp() ? weights::OptimizerKeys::kByName : weights::OptimizerKeys::kByIndex;
  weights::TorchDict dict;
  dict.add(state.weights_key, weights::dict_of(written));
  dict.add(state.optimizer_key, weights::optimizer_object(moments, keys));
  if (!state.average.empty()) {
    dict.add(kAverageKey,
             weights::dict_of(weights::from_fovea(naming, state.average, num_heads).tensors));
  }
  for (size_t i = 0; i < state.values.keys.size(); ++i)
    dict.add(state.values.keys[i], state.values.values[i]);
  return dict;
}

}  // namespace fovea::app
