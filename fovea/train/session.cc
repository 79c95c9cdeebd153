#include "fovea/train/session.h"

#include <ATen/Parallel.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/kernels/attention_choice.h"
#include "fovea/kernels/device.h"
#include "fovea/models/registry.h"
#include "fovea/models/variables.h"
#include "fovea/optim/param_groups.h"
#include "fovea/train/own_runs.h"
#include "fovea/train/stepper.h"
#include "fovea/train/weights_metadata.h"

namespace fovea::train {
namespace {

// Before anything is trained: a batch with other channels might come late.
void check_variables_of(const models::Model& model, const data::OpenedSection& opened,
                        const std::string& section) {
  const auto* mix = dynamic_cast<const data::MixDataset*>(opened.dataset.get());
  for (size_t set = 0; set < opened.options.variables.size(); ++set) {
    models::check_channels(
        model, opened.options.variables[set],
        mix != nullptr ? fmt::format("{}, set {}", section, mix->sets()[set].name) : section);
  }
}

// Classes of voxels are not matched by name.
void check_class_names(const std::vector<std::string>& expected,
                       const std::vector<std::string>& found) {
  if (expected.empty() || found.empty() || expected == found) return;
  const auto [left, right] =
      std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  const auto name = [](auto position, const auto& names) {
    return position == names.end() ? std::string("nothing") : "'" + *position + "'";
  };
  fail<ConfigError>(
      "data.val: class {} is {}, but {} in training; give both the same class folders, or the same "
      "class_names in the same order",
      left - expected.begin(), name(right, found), name(left, expected));
}

data::OpenedSection open_data(const TrainConfig& config, const data::DataSectionConfig& section,
                              bool is_training, data::Shard shard,
                              const std::vector<std::string>& class_names = {}) {
  const auto model = models::build_model(config.model, at::kMeta);  // its form alone
  if (model->takes_patches() != config.data.adaptive_patching.has_value()) {
    fail<ConfigError>("data.adaptive_patching: found {}, but the model takes {}; {}",
                      model->takes_patches() ? "nothing" : "a section",
                      model->takes_patches() ? "adaptive patches" : "images",
                      model->takes_patches()
                          ? "give it the model's fixed_length and patch_size"
                          : "leave it out, or give the model patching: adaptive");
  }
  auto input = input_form_of(*model);
  input.class_names = class_names;
  auto opened = data::open_section(config.data, section, input, is_training);
  check_class_names(class_names, opened.dataset->class_names());
  make_task(config.task, *model)->check_data(*opened.dataset);
  check_variables_of(*model, opened, is_training ? "data.train" : "data.val");
  opened.options.seed = static_cast<uint64_t>(config.run.seed);
  opened.options.shard = shard;
  // A GPU makes floats of them in the pass that mixes, and a quarter travels.
  if (kernels::resolve_device(config.device.type).is_cuda() && data::can_be_bytes(opened)) {
    opened.options.pixel_type = data::PixelType::kUint8;
  }
  return opened;
}

// One overload a task.
std::unique_ptr<Task> make(const ClassificationConfig& config, const models::Model& model) {
  return std::make_unique<ClassificationTask>(config, model.num_classes());
}

std::unique_ptr<Task> make(const MaskedAutoencodingConfig& config, const models::Model& model) {
  return std::make_unique<MaskedAutoencodingTask>(config, model);
}

std::unique_ptr<Task> make(const SegmentationConfig& config, const models::Model& model) {
  return std::make_unique<SegmentationTask>(config, model);
}

std::unique_ptr<Task> make(const DiffusionConfig& config, const models::Model& model) {
  return std::make_unique<DiffusionTask>(config, model);
}

}  // namespace

data::InputForm input_form_of(const models::Model& model) {
  const auto spec = model.input_spec();
  return {.in_chans = spec.in_chans,
          .spatial_dims = static_cast<int>(spec.img_size.size()),
          .packed_patch_size = spec.packed_patch_size};
}

data::InputForm input_form_of(const models::ModelConfig& config) {
  return input_form_of(*models::build_model(config, at::kMeta));
}

data::OpenedSection open_training_section(const TrainConfig& config, data::Shard shard) {
  if (!config.data.train) {
    fail<ConfigError>(
        "data.train is missing; expected a data set to train on, such as {{format: idx, path: "
        "...}}");
  }
  return open_data(config, *config.data.train, /*is_training=*/true, shard);
}

data::OpenedSection open_validation_section(const TrainConfig& config,
                                            const std::vector<std::string>& class_names,
                                            data::Shard shard) {
  if (!config.data.val) {
    fail<ConfigError>("data.val is missing; expected a data set to evaluate on");
  }
  return open_data(config, *config.data.val, /*is_training=*/false, shard, class_names);
}

DataSource make_source(data::OpenedSection section) {
  DataSource source;
  source.dataset = section.dataset;
  source.loader = std::make_unique<data::Loader>(source.dataset, std::move(section.transforms),
                                                 section.options);
  return source;
}

DataSource open_training_data(const TrainConfig& config, data::Shard shard) {
  return make_source(open_training_section(config, shard));
}

DataSource open_validation_data(const TrainConfig& config,
                                const std::vector<std::string>& class_names, data::Shard shard) {
  if (!config.data.val) return {};
  return make_source(open_validation_section(config, class_names, shard));
}

std::unique_ptr<Task> make_task(const TaskConfig& config, const models::Model& model) {
  return config.visit_value([&](const auto& chosen) { return make(chosen, model); });
}

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

models::LoadOptions load_options(const InitConfig& config) {
  return {.resize_pos_embed = config.resize_pos_embed,
          .skip_head = config.skip_head,
          .adapt_in_chans = config.adapt_in_chans,
          .part = models::weights_part_from_name(config.part)};
}

void warn_of_other_model(const std::string& path, const models::ModelConfig& model) {
  const auto differences = differences_of_weights(path, model);
  if (differences.empty()) return;
  log_warning(fmt::format("{}: its weights are of a model that computes otherwise: {}", path,
                          fmt::join(differences, "; ")));
}

models::ModelPtr make_model(const TrainConfig& config, const ComputeOptions& compute) {
  auto model = models::build_model(config.model);
  model->init_weights(static_cast<uint64_t>(config.run.seed));
  if (!config.init.weights.empty()) {
    const auto path = weights_path(config.init.weights);
    const auto report = models::load_weights(*model, path, load_options(config.init),
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

ComputeOptions compute_options(const DeviceConfig& config) {
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  const auto device = kernels::resolve_device(config.type);
  kernels::choose_attention(config.attention, device);
  return {.device = device, .dtype = dtype_from_name(config.dtype, device)};
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
