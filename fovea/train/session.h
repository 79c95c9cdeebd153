// The pieces of a run, built from its config: what Trainer drives, and what a hand-written loop
// starts from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/data/loader.h"
#include "fovea/data/section.h"
#include "fovea/models/model.h"
#include "fovea/models/weights.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/config.h"
#include "fovea/train/step.h"
#include "fovea/train/task.h"

namespace fovea::train {

// A data set with the loader that reads it.
struct DataSource {
  std::shared_ptr<const data::Dataset> dataset;
  std::unique_ptr<data::Loader> loader;
};

data::InputForm input_form_of(const models::Model& model);
data::InputForm input_form_of(const models::ModelConfig& config);

// What a loader is made of: data.train, shuffled by the run's seed, or data.val, in order and to
// the last sample, checked against the model and the task. shard: the part of each batch that this
// process reads. Errors: see the two functions below.
data::OpenedSection open_training_section(const TrainConfig& config, data::Shard shard = {});
data::OpenedSection open_validation_section(const TrainConfig& config,
                                            const std::vector<std::string>& class_names,
                                            data::Shard shard = {});
DataSource make_source(data::OpenedSection section);

// data.train, shuffled by the run's seed. Throws ConfigError where the section is missing or the
// model has not as many classes as the data; DataError where the data is not what it should be.
DataSource open_training_data(const TrainConfig& config, data::Shard shard = {});
// data.val, in order and to the last sample; empty where the recipe has none. class_names: those of
// the training data, with which those of data.val are matched by name; it may lack some of them.
// Throws ConfigError for a class that training did not have (of masks: where the two lists
// differ).
DataSource open_validation_data(const TrainConfig& config,
                                const std::vector<std::string>& class_names,
                                data::Shard shard = {});

// Throws ConfigError where the model does not give what the task needs.
std::unique_ptr<Task> make_task(const TaskConfig& config, const models::Model& model);

struct MetricNames {
  std::string best;   // names the best checkpoint
  std::string label;  // ends the names of checkpoints' folders; empty: none
};
// Throws ConfigError: the task has no metric of a name that was asked for.
MetricNames checkpoint_metrics(const CheckpointConfig& config, const Task& task);

// How init.weights is loaded.
models::LoadOptions load_options(const InitConfig& config);

// Says where a weights file holds another model than this, of the same shapes: what a recipe
// changes on purpose.
void warn_of_other_model(const std::string& path, const models::ModelConfig& model);

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

// Optimizer steps of the whole run.
int64_t total_steps(const TrainerConfig& config, int64_t batches_per_epoch);

}  // namespace fovea::train
