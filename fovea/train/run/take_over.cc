#include "fovea/train/run/take_over.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/checkpoint/store.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/nearest.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/state/optimizer_settings.h"
#include "fovea/train/state/parameter_rules.h"
#include "fovea/weights/moments.h"
#include "fovea/weights/weights_file.h"

namespace fovea::train {
namespace {

// timm's moving average lies under this key.
constexpr const char* kAverageKey = "state_dict_ema";

std::set<std::string> trained_names(const optim::Optimizer& optimizer) {
  std::set<std::string> names;
  for (const auto& spec : optimizer.params()) names.insert(spec.name);
  return names;
}

std::set<std::string> parameter_names_of(const models::Model& model) {
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) names.insert(item.key());
  return names;
}

weights::ForeignMoments read_moments_for(const TrainConfig& config, const models::Model& model,
                                         const optim::Optimizer& optimizer) {
  weights::MomentsOptions options;
  options.weights = config.init.weights;
  options.reading.known = parameter_names_of(model);
  options.reading.num_heads = models::num_heads_of(config.model);
  options.rules = parameter_rules(
      model,
      [names = trained_names(optimizer)](const std::string& name) { return names.contains(name); });
  return weights::read_moments(config.init.optimizer, options);
}

// Holds the moments against the parameters that are trained, by name and shape. Throws
// CheckpointError with the table where they are not the same.
models::LoadReport check_moments_fit(const weights::ForeignMoments& moments,
                                     const models::Model& model, const optim::Optimizer& optimizer,
                                     const std::string& path) {
  models::LoadReport report;
  auto found = moments.sizes();
  std::vector<std::string> known;
  for (const auto& spec : optimizer.params()) {
    known.push_back(spec.name);
    const auto moment = found.find(spec.name);
    if (moment == found.end()) {
      report.missing.push_back(spec.name);
    } else if (at::IntArrayRef(moment->second) != spec.shape()) {
      report.mismatched.push_back(fmt::format("{}: [{}] -> [{}]", spec.name,
                                              fmt::join(moment->second, ", "),
                                              fmt::join(spec.shape(), ", ")));
    } else {
      report.loaded.push_back(spec.name);
    }
    if (moment != found.end()) found.erase(moment);
  }
  const auto of_model = parameter_names_of(model);
  for (const auto& item : found) {
    if (of_model.contains(item.first)) {  // trained there, frozen here
      report.left_out.push_back(item.first);
      continue;
    }
    // Of those that are shown: each costs a comparison with every name of the model.
    const bool is_shown = report.unexpected.size() < models::kShownNames;
    const auto nearest = is_shown ? fovea::nearest(item.first, known) : std::string();
    report.unexpected.push_back(
        nearest.empty() ? item.first : fmt::format("{} (nearest: {})", item.first, nearest));
  }
  if (report.is_complete()) return report;
  fail<CheckpointError>(
      "{}: these are moments of another model: {}\nCheck the model's name and options, and "
      "trainer.freeze; init.optimizer=\"\" starts with the weights alone",
      path, report.text());
}

// Settings stand in the recipe alone; where the file says otherwise, the run is another one.
void warn_of_differences(const weights::ForeignMoments& moments, const optim::OptimConfig& config,
                         const std::string& path) {
  const auto differences = differences_of_settings(moments, config);
  if (differences.empty()) return;
  log_warning(fmt::format("{}: the recipe's optim is not that of the file: {}", path,
                          fmt::join(differences, "; ")));
}

// Throws where the moments are those of another optimizer.
void check_optimizer(const weights::ForeignMoments& moments, const TrainConfig& config,
                     optim::Optimizer& optimizer) {
  const auto& path = config.init.optimizer;
  const std::string here(config.optim.name());
  if (moments.optimizer != here) {
    fail<ConfigError>(
        "init.optimizer: {} holds the state of {}, but optim.name is {}; set "
        "optim.name={}, or start with the weights alone: init.optimizer=\"\"",
        path, weights::optimizer_kind(moments.optimizer).title, here, moments.optimizer);
  }
  const bool has_moments = !moments.slots.empty(), wants_moments = !optimizer.state().empty();
  if (has_moments == wants_moments) return;
  fail<ConfigError>(
      "init.optimizer: {} holds the state of SGD {} momentum, but optim.momentum is {}; set it as "
      "it is there, or start with the weights alone: init.optimizer=\"\"",
      path, has_moments ? "with" : "without", config.optim.get_if<optim::SgdConfig>()->momentum);
}

// The step to go on from. torch's SGD counts none, and a program may have kept none beside it.
int64_t step_to_go_on_from(const weights::ForeignMoments& moments, const InitConfig& init) {
  if (init.step) return *init.step;
  if (moments.steps > 0) return moments.steps;
  fail<ConfigError>(
      "init.step: {} does not say how many steps were done: its {} keeps no count, and there is no "
      "key step or global_step beside it; set init.step to the number of steps, or to 0 for a new "
      "schedule",
      init.optimizer, weights::optimizer_kind(moments.optimizer).title);
}

// By the names that `optimizer` saves them under.
std::map<std::string, at::Tensor> state_of_moments(const weights::ForeignMoments& moments,
                                                   const optim::Optimizer& optimizer) {
  std::map<std::string, at::Tensor> state;
  const auto trained = trained_names(optimizer);
  for (const auto& [slot, tensors] : moments.slots) {
    for (const auto& [name, tensor] : tensors) {
      if (trained.contains(name)) state[slot + "/" + name] = tensor;
    }
  }
  return state;
}

// The averaged weights of the trained parameters; empty: the file has none. What else lies with
// them is named.
std::map<std::string, at::Tensor> read_average(const TrainConfig& config,
                                               const models::Model& model,
                                               const optim::Optimizer& optimizer) {
  const auto& path = config.init.optimizer;
  if (!weights::has_tensors_under(path, kAverageKey)) {
    log_info(fmt::format("{}: no {} in it; the moving average starts from the weights", path,
                         kAverageKey));
    return {};
  }
  const auto file =
      weights::read_weights(path, {.key = kAverageKey, .known = parameter_names_of(model)});
  const auto trained = trained_names(optimizer);
  std::map<std::string, at::Tensor> average;
  std::vector<std::string> not_trained;
  for (const auto& [name, tensor] : file.tensors) {
    if (trained.contains(name)) {
      average[name] = tensor;
    } else {
      not_trained.push_back(name);
    }
  }
  if (!not_trained.empty()) {
    log_info(fmt::format("{}: {} averages are of no parameter that is trained here: {}", path,
                         not_trained.size(), fmt::join(not_trained, ", ")));
  }
  return average;
}

// Where the recipe's optimizer has other settings than that of the run whose moments it gets.
void warn_of_differences(const TrainConfig& before, const TrainConfig& config,
                         const std::string& path) {
  std::vector<std::string> differences;
  for (const auto& change : config_diff(before, config)) {
    if (!change.key.starts_with("optim.") || change.key == "optim.lr") continue;
    differences.push_back(fmt::format("{} {} there, {} here", change.key,
                                      change.a.value_or("nothing"), change.b.value_or("nothing")));
  }
  if (differences.empty()) return;
  log_warning(fmt::format("{}: the recipe's optim is not that of the run: {}", path,
                          fmt::join(differences, "; ")));
}

// A whole state for a run with a moving average, of one without; or the other way round.
void fit_average(checkpoint::State& state, optim::Ema* ema, const std::string& path) {
  if (ema == nullptr && !state.ema.empty()) {
    log_info(
        fmt::format("{}: its averaged weights are left out: trainer.ema.enabled is false", path));
    state.ema.clear();
  } else if (ema != nullptr && state.ema.empty()) {
    log_info(
        fmt::format("{}: no averaged weights; the moving average starts from the weights", path));
    for (const auto& item : ema->state()) {
      const auto found = state.model.find(item.first);
      if (found != state.model.end()) state.ema[item.first] = found->second;
    }
  }
}

// The state of a run of Fovea's, of any optimizer: weights, moments and average as one.
int64_t take_over_own(const TrainConfig& config, models::Model& model, optim::Optimizer& optimizer,
                      optim::Ema* ema, const Sharing& sharing) {
  const auto& path = config.init.optimizer;
  if (!config.init.weights.empty() && config.init.weights != path) {
    fail<ConfigError>(
        "init.weights: found {}, but init.optimizer names a run, {}, whose moments belong to its "
        "own weights; leave init.weights out, or start with the weights alone",
        config.init.weights, path);
  }
  const auto place = find_checkpoint(path);
  auto state = checkpoint::Store(place.checkpoints())
                   .load(place.step, wanted_parts(model, optimizer, ema, sharing));
  fit_average(state, ema, path);
  const auto before = load_run_config(place.run_dir);
  try {
    load_into(model, optimizer, ema, sharing, state);
  } catch (const CheckpointError& error) {
    fail<CheckpointError>(
        "{}: {}\nThe run has model {} and optim {}, the recipe {} and {}; expected the same, or "
        "init.weights={} for the weights alone",
        path, error.what(), before.model.name(), before.optim.name(), config.model.name(),
        config.optim.name(), path);
  }
  log_info(fmt::format("{}: weights, moments of {}{} after {} steps", path, config.optim.name(),
                       ema ? ", averaged weights" : "", place.step));
  warn_of_differences(before, config, path);
  return config.init.step.value_or(place.step);
}

}  // namespace

int64_t take_over_run(const TrainConfig& config, models::Model& model, optim::Optimizer& optimizer,
                      optim::Ema* ema, const Sharing& sharing) {
  const auto& path = config.init.optimizer;
  if (path.empty()) return config.init.step.value_or(0);
  if (is_own_run(path)) return take_over_own(config, model, optimizer, ema, sharing);
  const auto moments = read_moments_for(config, model, optimizer);
  check_optimizer(moments, config, optimizer);
  const auto step = step_to_go_on_from(moments, config.init);
  // SGD without momentum keeps none.
  const auto report = moments.slots.empty() ? models::LoadReport()
                                            : check_moments_fit(moments, model, optimizer, path);
  std::map<std::string, at::Tensor> average;
  if (ema != nullptr) {
    average = read_average(config, model, optimizer);
  } else if (weights::has_tensors_under(path, kAverageKey)) {
    log_info(
        fmt::format("{}: its {} is left out: trainer.ema.enabled is false", path, kAverageKey));
  }
  if (!average.empty()) ema->load_state(parts_of(average, ema->state(), optimizer.params()));
  // A momentum that is there is not at its first step.
  const auto steps = std::max(moments.steps, moments.slots.empty() ? int64_t{0} : int64_t{1});
  optimizer.load_state(
      parts_of(state_of_moments(moments, optimizer), optimizer.state(), optimizer.params()), steps);
  const auto lr = moments.groups.empty() ? std::nullopt : moments.groups.front().number("lr");
  log_info(
      fmt::format("{}: moments of {} after {} steps{}{}{}: {}", path,
                  weights::optimizer_kind(moments.optimizer).title,
                  moments.steps > 0 ? std::to_string(moments.steps) : "an unknown number of",
                  lr ? fmt::format(", learning rate {:.4g}", *lr) : "",
                  average.empty() ? "" : ", averaged weights",
                  moments.naming.empty() || moments.naming == "timm"
                      ? ""
                      : ", names of " + std::string(weights::naming_named(moments.naming).title),
                  report.text()));
  warn_of_differences(moments, config.optim, path);
  return step;
}

}  // namespace fovea::train
