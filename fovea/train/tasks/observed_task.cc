#include "fovea/train/tasks/observed_task.h"

#include <utility>

namespace fovea::train {

ObservedTask::ObservedTask(const Task& task, Hooks hooks) : task_(task), hooks_(std::move(hooks)) {}

void ObservedTask::check_data(const data::Dataset& dataset) const { task_.check_data(dataset); }

std::vector<std::string> ObservedTask::metric_names() const { return task_.metric_names(); }

bool ObservedTask::wants_images_of_patches() const { return task_.wants_images_of_patches(); }

bool ObservedTask::has_loss_of_batch() const { return task_.has_loss_of_batch(); }

at::Tensor ObservedTask::loss_of_statistics(const at::Tensor& statistics) const {
  return task_.loss_of_statistics(statistics);
}

LossParts ObservedTask::loss(models::Model& model, const TensorBatch& batch) const {
  if (hooks_.before_loss) hooks_.before_loss();
  auto parts = task_.loss(model, batch);
  if (hooks_.after_loss) hooks_.after_loss();
  return parts;
}

std::unique_ptr<Evaluation> ObservedTask::start_evaluation() const {
  return task_.start_evaluation();
}

}  // namespace fovea::train
