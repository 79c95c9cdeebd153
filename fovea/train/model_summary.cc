#include "fovea/train/model_summary.h"

#include "fovea/kernels/meta_kernels.h"
#include "fovea/models/registry.h"
#include "fovea/models/variables.h"
#include "fovea/train/example_batch.h"
#include "fovea/train/task.h"

namespace fovea::train {

models::ModelSummary summarize_model(const TrainConfig& config, models::Model& model) {
  kernels::MetaKernels meta_kernels;
  ExampleBatches examples(config, model, c10::ScalarType::Float);
  meta_kernels.set_conditions(examples.has_all_patches());
  const auto sample = examples.rows(0, 1);
  const models::ChannelScope channels(model, sample.variables);
  return models::summarize(model, sample.images.sizes().vec(), [&] { forward(model, sample); });
}

double training_flops_per_image(const TrainConfig& config) {
  const auto on_meta = models::build_model(config.model, at::kMeta);
  return 3 * static_cast<double>(summarize_model(config, *on_meta).product_flops);
}

}  // namespace fovea::train
