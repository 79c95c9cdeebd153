#include "fovea/train/tasks/task.h"

#include "fovea/core/error.h"

namespace fovea::train {

at::Tensor forward(models::Model& model, const TensorBatch& batch) {
  if (batch.features.defined()) return model.classify(batch.features);
  if (model.takes_packed()) return model.forward_packed(batch.packed);
  if (!model.takes_patches()) return model.forward(batch.images);
  if (!batch.patches.tokens.defined()) {
    fail<ConfigError>("the model takes adaptive patches; set data.adaptive_patching");
  }
  return model.forward_patches(batch.patches);
}

at::Tensor Task::loss_of_statistics(const at::Tensor& /*statistics*/) const {
  fail("a task whose loss() gives statistics of the batch; expected loss_of_statistics() too");
}

}  // namespace fovea::train
