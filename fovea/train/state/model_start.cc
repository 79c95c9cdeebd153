#include "fovea/train/state/model_start.h"

#include <ATen/ops/empty.h>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

bool has_parts_alone(const parallel::ParallelConfig& config) {
  return config.tp > 1 || (config.dp_shard > 1 && config.zero == 3);
}

}  // namespace

ModelStart::ModelStart(const TrainConfig& config, const ComputeOptions& compute)
    : seed_(static_cast<uint64_t>(config.run.seed)), device_(compute.device) {
  if (!has_parts_alone(config.parallel)) {
    model_ = make_model(config, compute);
    return;
  }
  model_ = make_model_without_values(config);
  for (const auto& item : model_->named_parameters()) {
    shapes_[item.key()] = item.value().sizes().vec();
  }
  const auto named = named_init_weights(config);
  if (named.empty()) return;
  const auto path = weights_path(named);
  auto fitted = models::fit_weights(*model_, path, load_options(config, path),
                                    {.num_heads = models::num_heads_of(config.model)});
  log_info(fmt::format("{}: {}", path, fitted.report.text()));
  warn_of_other_model(path, config.model);
  file_ = std::move(fitted);
}

ModelStart::ModelStart(models::ModelPtr without_values) : model_(std::move(without_values)) {}

ModelStart ModelStart::without_values(const TrainConfig& config) {
  return ModelStart(make_model_without_values(config));
}

ModelStart::~ModelStart() = default;

at::Tensor ModelStart::whole(const std::string& name) const {
  const auto value = at::empty(shapes_.at(name), at::kFloat);
  if (const auto found = file_.tensors.find(name); found != file_.tensors.end()) {
    value.copy_(found->second);
    file_.check_unchanged();
  } else {
    model_->init_parameter(name, value, seed_);
  }
  return value;
}

parallel::ParamValues ModelStart::values(const parallel::ModelParallel& layers) const {
  if (shapes_.empty()) return {};
  return [this, &layers, parameters = model_->named_parameters()](const std::string& name) {
    const auto cut = layers.cut_of(name);
    const auto value = cut ? kernels::take_cut(*cut, whole(name)) : whole(name);
    return value.to(device_, parameters[name].scalar_type());
  };
}

}  // namespace fovea::train
