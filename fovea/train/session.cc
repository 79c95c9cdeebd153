#include "fovea/train/session.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/device.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/kernels/linear/split_products.h"
#include "fovea/kernels/recompute_cheap.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/optim/param_groups.h"
#include "fovea/train/recipe/own_runs.h"
#include "fovea/train/step/stepper.h"

namespace fovea::train {

MetricNames checkpoint_metrics(const CheckpointConfig& config, const Task& task) {
  const auto names = task.metric_names();
  const auto check = [&](const char* key, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    fail<ConfigError>("checkpoint.{}: found '{}'; expected one of the task's metrics: {}", key,
                      name, fmt::join(names, ", "));
  };
  if (config.best_metric) check("best_metric", *config.best_metric);
  if (!config.label_metric.empty()) check("label_metric", config.label_metric);
  return {.best = config.best_metric.value_or(names.front()), .label = config.label_metric};
}

models::ModelPtr make_model(const TrainConfig& config, const ComputeOptions& compute) {
  auto model = models::build_model(config.model);
  model->init_weights(static_cast<uint64_t>(config.run.seed));
  if (const auto named = named_init_weights(config); !named.empty()) {
    const auto path = weights_path(named);
    const auto report = models::load_weights(*model, path, load_options(config, path),
                                             {.num_heads = models::num_heads_of(config.model)});
    log_info(fmt::format("{}: {}", path, report.text()));
    warn_of_other_model(path, config.model);
  }
  model->to(compute.device);
  freeze_parameters(*model, config.trainer.freeze);
  return model;
}

models::ModelPtr make_model_without_values(const TrainConfig& config) {
  auto model = models::build_model(config.model, at::kMeta);
  freeze_parameters(*model, config.trainer.freeze);
  return model;
}

void freeze_parameters(models::Model& model, const std::vector<std::string>& patterns) {
  const auto matches = [&](const std::string& pattern, const std::string& name) {
    if (pattern == "backbone") return model.is_backbone(name);
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
  };
  for (const auto& pattern : patterns) {
    bool found = false;
    for (auto& parameter : model.named_parameters()) {
      if (!matches(pattern, parameter.key())) continue;
      parameter.value().set_requires_grad(false);
      found = true;
    }
    if (!found) {
      fail<ConfigError>(
          "trainer.freeze: '{}' matches no parameter; expected a name or pattern such as "
          "blocks.0.*, or "
          "backbone (`fovea summary` lists the names)",
          pattern);
    }
  }
  const auto parameters = model.parameters();
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const at::Tensor& p) { return p.requires_grad(); })) {
    fail<ConfigError>("trainer.freeze: [{}] leaves nothing to train", fmt::join(patterns, ", "));
  }
}

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, models::Model& model) {
  return optim::make_optimizer(config.optim, optim::param_groups(model, config.optim));
}

std::unique_ptr<optim::GradScaler> make_grad_scaler(const TrainConfig& config) {
  const auto& options = config.trainer.grad_scaler;
  if (!options.enabled.value_or(config.device.dtype == "float16")) return nullptr;
  return std::make_unique<optim::GradScaler>(options);
}

namespace {

void tell_what_changes_nothing(const DeviceConfig& config, const ComputeOptions& compute) {
  const bool is_of_float32 = compute.device.is_cpu() && compute.dtype == at::kFloat;
  const auto* place = compute.device.is_cpu() ? "a CPU" : "a GPU";
  const auto tell = [&](const char* key, const std::string& value) {
    log_info(fmt::format(
        "device.{}: {} changes nothing here: it is for float32 on a CPU, and this is {} on {}", key,
        value, dtype_name(compute.dtype), place));
  };
  if (config.saved_activations != "full" && !is_of_float32) {
    tell("saved_activations", config.saved_activations);
  }
  if (config.float32_products == "float32") return;
  if (!is_of_float32) return tell("float32_products", config.float32_products);
  if (!kernels::has_bfloat16_products(compute.device)) {
    log_warning(fmt::format(
        "device.float32_products: {}: this processor does not multiply bfloat16, so each product "
        "is taken as several of float32, which is slower than float32_products=float32",
        config.float32_products));
  }
}

}  // namespace

ComputeOptions compute_options(const DeviceConfig& config) {
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  const auto device = kernels::resolve_device(config.type);
  kernels::choose_attention(config.attention, device);
  kernels::choose_recompute_cheap(config.recompute_cheap);
  kernels::choose_saved_activations(config.saved_activations);
  kernels::choose_float32_products(config.float32_products);
  const ComputeOptions compute{.device = device, .dtype = dtype_from_name(config.dtype, device)};
  tell_what_changes_nothing(config, compute);
  return compute;
}

StepOptions step_options(const TrainConfig& config) {
  return step_options(config, compute_options(config.device));
}

StepOptions step_options(const TrainConfig& config, const ComputeOptions& compute) {
  return {.seed = static_cast<uint64_t>(config.run.seed),
          .micro_batch_size = config.trainer.micro_batch_size.value_or(0),
          .max_grad_norm = config.trainer.max_grad_norm,
          .max_grad_value = config.trainer.max_grad_value,
          .max_grad_ratio = config.trainer.max_grad_ratio,
          .compute = compute};
}

void use_graphs(Stepper& stepper, const DeviceConfig& config, c10::Device device) {
  const bool is_asked_for = config.cuda_graph == "on";
  if (is_asked_for && device.is_cpu()) {
    fail<ConfigError>(
        "device.cuda_graph: found on, but the run is on the CPU; set it to auto, which records "
        "steps where a GPU is, or to off");
  }
  if (config.cuda_graph == "off" || device.is_cpu()) return;
  stepper.use_graphs(kernels::make_device_graph, is_asked_for);
}

int64_t total_steps(const TrainerConfig& config, int64_t batches_per_epoch) {
  constexpr auto kNoEnd = std::numeric_limits<int64_t>::max();
  const auto of_epochs = [&] {
    const double steps = *config.max_epochs * static_cast<double>(batches_per_epoch);
    return std::max<int64_t>(1, std::llround(steps));
  };
  return std::min(config.max_steps.value_or(kNoEnd), config.max_epochs ? of_epochs() : kNoEnd);
}

}  // namespace fovea::train
