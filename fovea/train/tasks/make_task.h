// From a recipe's task to what is learned.
#pragma once

#include <memory>

#include "fovea/models/model.h"
#include "fovea/train/tasks/task.h"
#include "fovea/train/tasks/task_config.h"

namespace fovea::train {

// Throws ConfigError where the model does not give what the task needs.
std::unique_ptr<Task> make_task(const TaskConfig& config, const models::Model& model);

}  // namespace fovea::train
