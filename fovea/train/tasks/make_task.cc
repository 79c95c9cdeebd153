#include "fovea/train/tasks/make_task.h"

namespace fovea::train {
namespace {

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

std::unique_ptr<Task> make_task(const TaskConfig& config, const models::Model& model) {
  return config.visit_value([&](const auto& chosen) { return make(chosen, model); });
}

}  // namespace fovea::train
