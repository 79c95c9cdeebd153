#include "fovea/train/tasks/task.h"

#include "fovea/core/error.h"

namespace fovea::train {

models::ModelInput input_of(const models::Model& model, const TensorBatch& batch) {
  if (model.takes_packed() && !batch.packed.grids.empty()) return batch.packed;
  if (!model.takes_patches()) return {batch.images, batch.variables};
  if (!batch.patches.tokens.defined()) {
    fail<ConfigError>("the model takes adaptive patches; set data.adaptive_patching");
  }
  return {batch.patches, batch.variables};
}

at::Tensor forward(const models::Model& model, const TensorBatch& batch) {
  if (batch.features.defined()) return model.classify(batch.features);
  return model.forward(input_of(model, batch));
}

at::Tensor Task::loss_of_statistics(const at::Tensor& /*statistics*/) const {
  fail("a task whose loss() gives statistics of the batch; expected loss_of_statistics() too");
}

}  // namespace fovea::train
