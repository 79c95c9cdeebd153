// Features of samples, from a model that is not trained: what a linear probe and k-NN stand on.
// B batch, F features, M samples of a data set.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"
#include "fovea/models/model.h"
#include "fovea/parallel/communicator.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/tasks/task.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// Told of samples done and to do.
using OnProgress = std::function<void(int64_t, int64_t)>;

// The features of a batch, in evaluation mode and without autograd. -> [B, F], in the dtype of the
// activations. Throws ConfigError where the model has none.
at::Tensor features_of(models::Model& model, const TensorBatch& batch);

// Where the features of a training step come from.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  // Sets batch.features to those of its samples; no gradient goes through them.
  virtual void fill(TensorBatch& batch) = 0;
};

// Runs the backbone for each batch.
class FrozenBackbone : public FeatureSource {
 public:
  explicit FrozenBackbone(models::Model& model) : model_(model) {}
  void fill(TensorBatch& batch) override { batch.features = features_of(model_, batch); }

 private:
  models::Model& model_;
};

// Whether `freeze` leaves nothing but the head to train, and the model's head stands on features:
// the backbone then runs in evaluation mode and without autograd.
bool has_frozen_backbone(const TrainerConfig& config, const models::Model& model);

// The features of all samples of a data set, by index.
struct SampleFeatures {
  at::Tensor features;               // [M, F] on the CPU, in the dtype of the activations
  std::vector<int64_t> labels;       // [M]; -1: none
  std::vector<std::string> missing;  // [M]; why a sample could not be read, empty where it could

  // Rows of samples that were read and have a label.
  std::vector<int64_t> labelled_rows() const;
};

// A loader over all samples of `setup`, once and in order, without mixing. What is drawn for a
// sample is what training draws for it in the first epoch.
data::Loader loader_in_order(const data::LoaderSetup& setup);

struct FeaturePassOptions {
  ComputeOptions compute = {};
  int64_t micro_batch_size = 0;  // samples in one forward; 0: the loader's batch
  OnProgress on_progress = {};
  // Each computes the setup's shard, and all get the features of all samples; null: this process
  // computes all.
  parallel::Communicator* ranks = nullptr;
};

// One pass of the model over all samples of `setup`. Samples that cannot be read go by the
// setup's policy for bad samples, but none stands for another. Throws DataError.
SampleFeatures collect_features(models::Model& model, const data::LoaderSetup& setup,
                                const FeaturePassOptions& options);

}  // namespace fovea::train
