// Diffusion: learning to take noise away from images (DDPM training).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "fovea/config/fields.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/train/diffusion/noise_schedule.h"
#include "fovea/train/diffusion/sampler_config.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

struct DiffusionConfig {
  static constexpr std::string_view kName = "diffusion";

  std::string prediction = "epsilon";
  std::string schedule = "linear";
  int64_t num_time_steps = 1000;
  double beta_start = 1e-4;
  double beta_end = 0.02;
  double label_drop_rate = 0.1;
  double value_range = 1.0;
  SamplerConfig sampler;
  int64_t num_samples = 64;
  std::string fid_backbone;
  int64_t fid_samples = 1024;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prediction", self.prediction,
            "what the model gives: the noise (epsilon), the image (x0) or the velocity (v)",
            {.choices = {"epsilon", "x0", "v"}});
    v.field("schedule", self.schedule,
            "noise over time: beta in equal steps (linear), or a squared cosine",
            {.choices = {"linear", "cosine"}});
    v.field("num_time_steps", self.num_time_steps, "time steps T of the forward process",
            {.min = 2, .max = 1000000, .unit = "steps"});
    v.field("beta_start", self.beta_start, "variance of the first step, schedule: linear",
            {.min = 0, .max = 1, .exclusive_min = true, .exclusive_max = true});
    v.field("beta_end", self.beta_end, "variance of the last step, schedule: linear",
            {.min = 0, .max = 1, .exclusive_min = true, .exclusive_max = true});
    v.field("label_drop_rate", self.label_drop_rate,
            "share of training samples shown without their class, for classifier-free guidance",
            {.min = 0, .max = 1});
    v.field("value_range", self.value_range,
            "images are within [-value_range, value_range]: 1 after normalize with mean 0.5 and "
            "std 0.5",
            {.min = 0, .exclusive_min = true});
    v.field("sampler", self.sampler, "how samples are drawn in evaluations");
    v.field("num_samples", self.num_samples,
            "samples shown in the report, drawn in each evaluation; 0: none", {.min = 0});
    v.field("fid_backbone", self.fid_backbone,
            "run folder or weights of a ViT classifier: evaluations give `fid`, the Frechet "
            "distance between its features of samples and of the validation data; empty: off");
    v.field("fid_samples", self.fid_samples, "samples drawn for `fid`", {.min = 2});
  }

  void validate(ConfigIssues& issues) const;

  NoiseScheduleOptions schedule_options() const {
    return {schedule, num_time_steps, beta_start, beta_end};
  }
};

// Loss: the mean square over the values of a sample of prediction - target, averaged over samples.
// Of adaptive patches noise is added to their values, along the tree of the image without noise,
// and padding counts for nothing. Time steps, noise and dropped labels come from (seed, step, row
// of the global batch) in training, and from the index of the sample in evaluations, which are the
// same each time.
class DiffusionTask : public Task {
 public:
  // Throws ConfigError where the model is no diffusion ViT.
  DiffusionTask(const DiffusionConfig& config, const models::Model& model);

  void check_data(const data::Dataset& dataset) const override;
  std::vector<std::string> metric_names() const override;
  LossParts loss(models::Model& model, const TensorBatch& batch) const override;
  kernels::Recordable can_be_recorded() const override { return {}; }
  std::unique_ptr<Evaluation> start_evaluation() const override;

 private:
  at::Tensor classes_of(models::Model& model, const TensorBatch& batch) const;

  DiffusionConfig config_;
  NoiseSchedule schedule_;
  PredictionType prediction_;
  int64_t num_classes_;
  models::InputSpec input_;
};

}  // namespace fovea::train
