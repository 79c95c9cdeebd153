// One optimizer step, from public pieces: what Trainer::fit does again and again, and what a
// hand-written loop calls.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "fovea/data/batch.h"
#include "fovea/models/model.h"
#include "fovea/optim/grad_scaler.h"
#include "fovea/optim/optimizer.h"
#include "fovea/parallel/communicator.h"
#include "fovea/parallel/ddp.h"
#include "fovea/parallel/model_parallel.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/evaluate/features.h"
#include "fovea/train/step/fp8_layers.h"
#include "fovea/train/tasks/task.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

// What ranks tell each other with the sums of a step; outcomes have the sum over them.
struct StepNotes {
  int64_t stop_requests = 0;  // ranks that were told to stop
  int64_t bad_samples = 0;    // met since the last time they were shared
};

class PassSize;

struct StepOptions {
  uint64_t seed = 42;
  int64_t micro_batch_size = 0;  // 0: the whole batch in one pass
  // In place of micro_batch_size, a size that is halved where memory runs out; the step is then
  // taken anew. null: that memory runs out is an error.
  PassSize* passes = nullptr;
  double max_grad_norm = 0;  // 0: no clipping
  double max_grad_value = 0;
  double max_grad_ratio = 0;  // of each unit to its weights, but for the classifier's; 0: off
  ComputeOptions compute = {};
  FeatureSource* features = nullptr;  // of a frozen backbone; null: the model runs as a whole
  // The ranks that each have a part of the batch, and what sums their gradients: reducer, shards,
  // or neither.
  parallel::Communicator* ranks = nullptr;  // null: this process has the whole batch
  parallel::GradientReducer* reducer = nullptr;
  parallel::ShardedParams* shards = nullptr;  // the optimizer's parameters are its parts
  // null: layers are whole. Else the optimizer is to know of it, too: see Sharing.
  const parallel::ModelParallel* model_parallel = nullptr;
  std::function<StepNotes()> notes = {};  // asked when this rank's part of the step is done
  optim::GradScaler* scaler = nullptr;    // null: losses are not scaled
  Fp8Layers* fp8 = nullptr;               // null: all layers compute in compute.dtype
};

// Of the whole batch: equal on all ranks.
struct StepOutcome {
  double loss = 0;       // mean over the batch
  double weight = 0;     // what the loss was divided by
  double grad_norm = 0;  // before clipping
  // With a scaler: the loss or the gradient is not finite, and the optimizer is to leave this step
  // out.
  bool is_skipped = false;
  double loss_scale = 0;  // of the next step; 0 without a scaler
  std::map<std::string, double> sums;
  StepNotes notes;
};

// Forward and backward over the micro-batches of `batch`; gradients are those of the mean loss over
// the whole batch, of which `batch` is this rank's part: the sum over micro-batches and ranks,
// divided by the weight summed alike, so that parts may weigh differently. Throws DivergedError, on
// all ranks at the same step and before any weight changes, when the loss or the gradient is not
// finite; with a scaler, when the scale has then fallen below its limit.
StepOutcome compute_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              data::Batch& batch, int64_t step, const StepOptions& options);

}  // namespace fovea::train
