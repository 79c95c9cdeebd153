// k-NN evaluation of a model's features on the data of a recipe.
#pragma once

#include "fovea/train/evaluate/features.h"
#include "fovea/train/metrics/knn.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

struct KnnEvaluation {
  std::map<std::string, double> metrics;  // see knn_metrics
  int64_t num_samples = 0;                // of data.val
  int64_t num_neighbors = 0;              // samples of data.train that vote
  int64_t num_left_out = 0;               // of both, that cannot be read or have no label
};

// The samples of data.val are classified by those of data.train, all of them with the transforms of
// data.val. Throws ConfigError where a section is missing, the model has no features or k is larger
// than the training set; DataError.
KnnEvaluation evaluate_knn(models::Model& model, const TrainConfig& config,
                           const KnnOptions& options, const ComputeOptions& compute,
                           const OnProgress& on_progress = {});

}  // namespace fovea::train
