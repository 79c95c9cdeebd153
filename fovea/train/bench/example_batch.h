// Batches of a recipe without its data: their shapes alone, on the meta device, or noise in them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fovea/data/adaptive/tree.h"
#include "fovea/data/batch.h"
#include "fovea/models/model.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// Adaptive patches are those of samples with equal detail everywhere: one tree, of the recipe's
// length, stands for all, and its leaves are real. Packed images all have the model's img_size.
class ExampleBatches {
 public:
  // Throws ConfigError where the model takes adaptive patches and the recipe does not say which.
  // Both outlive it.
  // images: those of adaptive patches that stay with the loader take no memory.
  ExampleBatches(const TrainConfig& config, const models::Model& model, at::ScalarType dtype,
                 PatchedImages images = PatchedImages::kOnDevice);

  // Whether samples have as many patches as the recipe's length allows. A length that is not of the
  // tree's (3 n + 1 in images, 7 n + 1 in volumes) leaves some empty in every sample.
  bool has_all_patches() const;

  // Rows [begin, end) of a batch; valid until the next call.
  TensorBatch rows(int64_t begin, int64_t end);

 private:
  void add_patches(TensorBatch& batch, int64_t count);

  const TrainConfig& config_;
  const models::Model& model_;
  at::ScalarType dtype_;
  bool are_images_sent_;
  data::PatchTree tree_;                // of one sample
  std::vector<data::PatchTree> trees_;  // of the rows
};

// A batch of noise with labels, masks and patches as the recipe has them, for measurements. Images
// are cut into patches by their values, as an evaluation cuts volumes. Throws ConfigError as
// ExampleBatches.
data::Batch noise_batch(const TrainConfig& config, const models::Model& model, int64_t size);

}  // namespace fovea::train
