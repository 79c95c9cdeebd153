#include "fovea/train/state/run_state.h"

#include <fmt/format.h>

#include <utility>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/recipe/run_folder.h"
#include "fovea/train/session.h"
#include "fovea/train/state/optimizer_settings.h"

namespace fovea::train {
namespace {

// The tensors of `values` in the model's order, where there are none, those of `others`.
nn::NamedTensors in_order(const models::Model& model, const checkpoint::TensorMap& values,
                          const checkpoint::TensorMap& others = {}) {
  nn::NamedTensors list;
  for (const auto& item : model.named_parameters()) {
    const auto found = values.find(item.key());
    const auto& tensor = found != values.end() ? found->second : others.at(item.key());
    list.emplace_back(item.key(), tensor);
  }
  return list;
}

// "exp_avg/blocks.0.norm1.weight" into slots, in the model's order.
void read_slots(const models::Model& model, const checkpoint::TensorMap& state,
                weights::NamedMoments& moments) {
  std::map<std::string, checkpoint::TensorMap> slots;
  for (const auto& [key, tensor] : state) {
    const auto at = key.find('/');
    slots[key.substr(0, at)][key.substr(at + 1)] = tensor;
  }
  for (const auto& [slot, tensors] : slots) {
    auto& list = moments.slots[slot];
    for (const auto& item : model.named_parameters()) {
      const auto found = tensors.find(item.key());
      if (found != tensors.end()) list.emplace_back(found->first, found->second);
    }
  }
}

std::vector<std::string> matrices_of(const weights::NamedMoments& moments) {
  std::vector<std::string> names;
  const auto found = moments.slots.find("momentum_buffer");
  if (moments.optimizer != "muon" || found == moments.slots.end()) return names;
  for (const auto& item : found->second) names.push_back(item.first);
  return names;
}

// The rate of the next step. Older checkpoints do not have it.
double rate_of(const JsonValue& scalars, const TrainConfig& config, const std::string& path) {
  if (const auto lr = scalars.find("lr")) return lr->number();
  const double peak = optim::base_lr(config.optim);
  log_warning(
      fmt::format("{}: a checkpoint of an older Fovea, without its learning rate; lr of the groups "
                  "is the peak, {:.4g}",
                  path, peak));
  return peak;
}

}  // namespace

RunState load_run_state(const std::string& path, const std::string& which) {
  auto place = find_checkpoint(path);
  const checkpoint::Store store(place.checkpoints());
  if (which != "latest") {
    const auto step = store.step_named(which);
    if (!step) {
      fail<CheckpointError>("{}: no checkpoint is its {} yet; expected a run that has saved one",
                            path, which);
    }
    place.step = *step;
  }
  auto state = store.load(place.step);
  const JsonValue scalars(state.scalars, state.source);
  RunState run;
  run.config = load_run_config(place.run_dir);
  run.step = place.step;
  const auto model = make_model_without_values(run.config);
  checkpoint::Shapes expected, found;
  for (const auto& item : model->named_parameters())
    expected[item.key()] = item.value().sizes().vec();
  for (const auto& [name, tensor] : state.model) found[name] = tensor.sizes().vec();
  checkpoint::check_same_shapes(expected, found);
  run.weights = in_order(*model, state.model);
  if (!state.ema.empty()) run.average = in_order(*model, state.ema, state.model);
  run.moments.optimizer = run.config.optim.name();
  run.moments.steps = static_cast<int64_t>(scalars.at("optimizer_steps").count());
  read_slots(*model, state.optimizer, run.moments);
  run.moments.groups = torch_groups(run.config.optim, *model, rate_of(scalars, run.config, path),
                                    matrices_of(run.moments));
  for (const auto* key : {"grad_scaler", "fp8"}) {
    if (scalars.find(key)) run.left_out.emplace_back(key);
  }
  return run;
}

}  // namespace fovea::train
