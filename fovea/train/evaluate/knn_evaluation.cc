#include "fovea/train/evaluate/knn_evaluation.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <type_traits>

#include "fovea/core/error.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/train/evaluate/recipe_data.h"

namespace fovea::train {
namespace {

// data.train as it would be evaluated on.
TrainConfig with_validation_transforms(const TrainConfig& config) {
  auto changed = config;
  changed.data.batch_schedule.clear();
  if (!config.data.train || !config.data.val) return changed;
  const auto& transforms = (*config.data.val)->transforms();
  auto& train = *changed.data.train;
  train->transforms() = transforms;
  if (auto* mix = train.get_if<data::MixConfig>()) {
    for (auto& part : mix->sets) part.source->transforms() = transforms;
  }
  return changed;
}

struct Labelled {
  at::Tensor features;  // [n, F] float32
  at::Tensor labels;    // [n] int64
};

// The samples with a label; `left_out` counts the others.
Labelled labelled(const SampleFeatures& samples, int64_t& left_out) {
  const auto rows = samples.labelled_rows();
  left_out += static_cast<int64_t>(samples.labels.size() - rows.size());
  if (rows.empty()) {
    fail<ConfigError>(
        "k-NN: no sample has a label; expected data.train and data.val with a class for each "
        "sample");
  }
  std::vector<int64_t> labels;
  for (const int64_t row : rows) labels.push_back(samples.labels[static_cast<size_t>(row)]);
  return {samples.features.index_select(0, at::tensor(rows, at::kLong)).to(at::kFloat),
          at::tensor(labels, at::kLong)};
}

}  // namespace

KnnEvaluation evaluate_knn(models::Model& model, const TrainConfig& config,
                           const KnnOptions& options, const ComputeOptions& compute,
                           const OnProgress& on_progress) {
  auto training = open_training_setup(with_validation_transforms(config));
  if (training.options.patching) training.options.patching->is_random = false;
  const auto validation = open_validation_setup(config, training.dataset->class_names());
  const FeaturePassOptions pass{.compute = compute,
                                .micro_batch_size = config.trainer.micro_batch_size.value_or(0),
                                .on_progress = on_progress};
  KnnEvaluation result;
  const auto queries = labelled(collect_features(model, validation, pass), result.num_left_out);
  const auto bank = labelled(collect_features(model, training, pass), result.num_left_out);
  const int64_t num_classes =
      1 + std::max(queries.labels.max().item<int64_t>(), bank.labels.max().item<int64_t>());
  result.metrics = knn_metrics(queries.features, queries.labels, {bank.features, bank.labels},
                               num_classes, options);
  result.num_samples = queries.labels.size(0);
  result.num_neighbors = bank.labels.size(0);
  return result;
}

}  // namespace fovea::train
