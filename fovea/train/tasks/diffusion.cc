// B batch.
#include "fovea/train/tasks/diffusion.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include "fovea/core/error.h"
#include "fovea/kernels/host_part.h"
#include "fovea/train/diffusion/evaluation.h"
#include "fovea/train/diffusion/row_draws.h"

namespace fovea::train {
namespace {

// The stream `name` of a batch. Evaluations have one that no seed changes.
kernels::DropKey stream(const models::Model& model, const TensorBatch& batch, const char* name) {
  if (model.is_training()) return model.drop_key(name);
  return {philox_key(0, fmt::format("{}.evaluation", name)), 0, batch.indices};
}

// Soft targets of mixup stand for no class that could be asked for.
void check_one_class_each(const at::Tensor& labels) {
  if (!labels.defined() || labels.dim() != 1) {
    fail<ConfigError>(
        "diffusion with classes: the batch has {}; expected one class for each "
        "image: leave mixup and cutmix out, or set model.num_classes: 0",
        labels.defined() ? "mixed labels" : "no labels");
  }
}

void check_diffusion_labels(const at::Tensor& labels, int64_t num_classes) {
  const auto low = labels.min().item<int64_t>(), high = labels.max().item<int64_t>();
  if (low >= 0 && high < num_classes) return;
  fail<DataError>(
      "label {} in a batch; expected labels in [0, {}): set model.num_classes to the "
      "number of classes of the data",
      low < 0 ? low : high, num_classes);
}

// Over the values of a sample that have a leaf. squares: [B, C, L, S] -> [B].
at::Tensor mean_of_leaves(const at::Tensor& squares, const models::PatchInput& patches) {
  const auto counted = patches.padding.logical_not()
                           .unsqueeze(-1)  // [B, 1 or C, L, 1]
                           .to(squares.scalar_type())
                           .expand_as(squares);
  return (squares * counted).flatten(1).sum(1) / counted.flatten(1).sum(1).clamp_min(1);
}

// What needs no image to begin with is what a sample would need: there is no tree of noise.
void check_no_samples(const DiffusionConfig& config) {
  if (config.num_samples == 0 && config.fid_backbone.empty()) return;
  fail<ConfigError>(
      "task.{}: found {}, but a model of adaptive patches makes an image along a tree, which only "
      "another image has; set task.num_samples: 0 and no fid_backbone (`fovea predict RUN IMAGE "
      "--noise-level 1` draws along the tree of IMAGE)",
      config.num_samples == 0 ? "fid_backbone" : "num_samples",
      config.num_samples == 0 ? config.fid_backbone : std::to_string(config.num_samples));
}

}  // namespace

void DiffusionConfig::validate(ConfigIssues& issues) const {
  if (beta_end < beta_start) {
    issues.add("beta_end", {"beta_start"},
               fmt::format("beta_end {} is below beta_start {}; noise grows with time", beta_end,
                           beta_start));
  }
  if (sampler.steps > num_time_steps) {
    issues.add("sampler.steps", {"num_time_steps"},
               fmt::format("sampler.steps {} of num_time_steps {}; use at most as many",
                           sampler.steps, num_time_steps));
  }
}

DiffusionTask::DiffusionTask(const DiffusionConfig& config, const models::Model& model)
    : config_(config),
      schedule_(config.schedule_options()),
      prediction_(prediction_type_from_name(config.prediction)),
      num_classes_(model.num_classes()),
      input_(model.input_spec()) {
  if (model.as_denoiser() == nullptr) {
    fail<ConfigError>(
        "task: diffusion needs a model that sees time steps; set model.name: diffusion_vit");
  }
  if (model.takes_patches()) check_no_samples(config);
  if (num_classes_ == 0 && config.sampler.guidance != 1.0) {
    fail<ConfigError>(
        "task.sampler.guidance: found {}, but the model has no classes to be guided "
        "to; set it to 1, or model.num_classes to those of the data",
        config.sampler.guidance);
  }
}

void DiffusionTask::check_data(const data::Dataset& dataset) const {
  if (num_classes_ == 0) return;
  const auto found = dataset.has_masks() ? 0 : dataset.num_classes();
  if (found == num_classes_) return;
  fail<ConfigError>(
      "model.num_classes: found {}, but the data has {} classes of images; set "
      "model.num_classes={}",
      num_classes_, found, found);
}

std::vector<std::string> DiffusionTask::metric_names() const {
  if (config_.fid_backbone.empty()) return {"loss"};
  return {"loss", "fid"};
}

// [B]; undefined: the model has none.
at::Tensor DiffusionTask::classes_of(models::Model& model, const TensorBatch& batch) const {
  if (num_classes_ == 0) return {};
  check_one_class_each(batch.labels);
  kernels::host_check(
      [labels = batch.host_labels.defined() ? batch.host_labels : batch.labels,
       num_classes = num_classes_] { check_diffusion_labels(labels, num_classes); });
  if (!model.is_training() || config_.label_drop_rate <= 0) return batch.labels;
  const auto dropped = bernoulli_rows(model.drop_key("diffusion_label"), config_.label_drop_rate,
                                      batch.labels.device());
  return at::where(dropped, at::full_like(batch.labels, num_classes_), batch.labels);
}

LossParts DiffusionTask::loss(models::Model& model, const TensorBatch& batch) const {
  const auto& denoiser = *model.as_denoiser();
  const bool has_patches = model.takes_patches();
  const auto& given = has_patches ? batch.patches.tokens : batch.images;
  const auto kind = given.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto clean = given.to(kind);  // [B, C, ...]
  const auto device = clean.device();
  const auto timesteps =
      integer_rows(stream(model, batch, "diffusion_time"), config_.num_time_steps, device);  // [B]
  const auto noise =
      normal_rows(stream(model, batch, "diffusion_noise"), clean.sizes().slice(1), device).to(kind);
  const auto classes = classes_of(model, batch);
  const auto noisy = schedule_.add_noise(clean, noise, timesteps).to(given.scalar_type());
  const auto output =
      denoiser.denoise(input_of(model, batch).with_tensor(noisy), timesteps, classes).to(kind);
  const auto target = schedule_.target(prediction_, clean, noise, timesteps);
  const auto squares = (output - target).square();
  auto losses =
      has_patches ? mean_of_leaves(squares, batch.patches) : squares.flatten(1).mean(1);  // [B]
  LossParts parts;
  parts.outputs = losses.detach();
  parts.weight = static_cast<double>(losses.size(0));
  if (batch.weights.defined()) {
    losses = losses * batch.weights;
    parts.weight = batch.weights.sum().item<double>();
  }
  parts.loss_sum = losses.sum();
  return parts;
}

std::unique_ptr<Evaluation> DiffusionTask::start_evaluation() const {
  return std::make_unique<DiffusionEvaluation>(config_, input_);
}

}  // namespace fovea::train
