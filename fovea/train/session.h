// The pieces of a run, built from its config: what Trainer drives, and what a hand-written loop
// starts from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/evaluate/recipe_data.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/recipe/init_weights.h"
#include "fovea/train/step/step.h"
#include "fovea/train/tasks/make_task.h"

namespace fovea::train {

struct MetricNames {
  std::string best;   // names the best checkpoint
  std::string label;  // ends the names of checkpoints' folders; empty: none
};
// Throws ConfigError: the task has no metric of a name that was asked for.
MetricNames checkpoint_metrics(const CheckpointConfig& config, const Task& task);

// The model of the recipe, with init.weights or step-0 weights, on the compute device, frozen
// parameters marked.
models::ModelPtr make_model(const TrainConfig& config, const ComputeOptions& compute);

// The same on the meta device, without values.
models::ModelPtr make_model_without_values(const TrainConfig& config);

// Marks parameters that match a pattern (`blocks.*`, or `backbone`: all but head.*) as not trained.
// Throws ConfigError for a pattern that matches nothing, or when nothing is left to train.
void freeze_parameters(models::Model& model, const std::vector<std::string>& patterns);

std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, models::Model& model);

// trainer.grad_scaler; null: losses are not scaled.
std::unique_ptr<optim::GradScaler> make_grad_scaler(const TrainConfig& config);

ComputeOptions compute_options(const DeviceConfig& config);
StepOptions step_options(const TrainConfig& config);
StepOptions step_options(const TrainConfig& config, const ComputeOptions& compute);

class Stepper;
// device.cuda_graph. Throws ConfigError for `on` where there is no GPU.
void use_graphs(Stepper& stepper, const DeviceConfig& config, c10::Device device);

// Optimizer steps of the whole run, where batches are of one size. Of a recipe, whatever it says:
// run_length in run/run_length.h.
int64_t total_steps(const TrainerConfig& config, int64_t batches_per_epoch);

}  // namespace fovea::train
