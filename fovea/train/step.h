// One optimizer step, from public pieces: what Trainer::fit does again and again, and what a
// hand-written loop calls.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "fovea/data/batch.h"
#include "fovea/models/model.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/features.h"
#include "fovea/train/task.h"
#include "fovea/train/tensor_batch.h"

namespace fovea::train {

struct StepOptions {
  uint64_t seed = 42;
  int64_t micro_batch_size = 0;  // 0: the whole batch in one pass
  double max_grad_norm = 0;      // 0: no clipping
  double max_grad_value = 0;
  double max_grad_ratio = 0;  // of each unit to its weights, but for the classifier's; 0: off
  ComputeOptions compute = {};
  FeatureSource* features = nullptr;  // of a frozen backbone; null: the model runs as a whole
};

struct StepOutcome {
  double loss = 0;       // mean over the batch
  double weight = 0;     // what the loss was divided by
  double grad_norm = 0;  // before clipping
  std::map<std::string, double> sums;
};

// Forward and backward over the micro-batches of `batch`; gradients are those of the mean loss over
// the whole batch. Throws DivergedError, before any weight changes, when the loss or the gradient
// is not finite.
StepOutcome compute_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              data::Batch& batch, int64_t step, const StepOptions& options);

}  // namespace fovea::train
