#include "fovea/train/bench/model_summary.h"

#include "fovea/kernels/meta_kernels.h"
#include "fovea/models/registry.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/bench/example_batch.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

namespace {

models::ModelSummary summarize(const TrainConfig& config, models::Model& model, bool is_training,
                               nn::RecordedTokens tokens) {
  kernels::MetaKernels meta_kernels;
  ExampleBatches examples(config, model, c10::ScalarType::Float);
  meta_kernels.set_conditions(examples.has_all_patches());
  const auto sample = examples.rows(0, 1);
  const nn::StepScope step(/*seed=*/0, /*step=*/0, at::zeros({1}, at::kLong));
  return models::summarize(
      model, sample.images.sizes().vec(), [&] { forward(model, sample); }, is_training, tokens);
}

double forward_flops(const TrainConfig& config, bool is_training) {
  const auto on_meta = models::build_model(config.model, at::kMeta);
  const auto summary = summarize(config, *on_meta, is_training, nn::RecordedTokens::kMade);
  return static_cast<double>(summary.product_flops);
}

}  // namespace

models::ModelSummary summarize_model(const TrainConfig& config, models::Model& model) {
  return summarize(config, model, /*is_training=*/false, nn::RecordedTokens::kAll);
}

double inference_flops_per_image(const TrainConfig& config) {
  return forward_flops(config, /*is_training=*/false);
}

double training_flops_per_image(const TrainConfig& config) {
  return 3 * forward_flops(config, /*is_training=*/true);
}

}  // namespace fovea::train
