// Metrics of a model over a whole data set.
#pragma once

#include <functional>
#include <memory>

#include "fovea/data/loader.h"
#include "fovea/parallel/communicator.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/evaluate/features.h"
#include "fovea/train/tasks/task.h"
#include "fovea/train/tasks/tensor_batch.h"

namespace fovea::train {

struct EvaluateOptions {
  OnProgress on_progress = {};  // on_progress(done, total) after each batch, where given
  // Asked between batches, by all ranks together and with the same answer; true breaks it off.
  std::function<bool()> should_stop = {};
  // Where the features of the loader's samples come from; null: the model runs as a whole.
  FeatureSource* features = nullptr;
  // Each evaluates its loader's shard, and all get the evaluation of the whole data set; null: one
  // rank alone.
  parallel::Communicator* ranks = nullptr;
  // What the model's parameters are shared out by; null: they are whole.
  parallel::ShardedParams* shards = nullptr;
};

// One pass over the loader's data set, without gradients and in evaluation mode (restored after).
// The loader must not shuffle nor drop the last batch. Collective over the ranks. Null where it was
// broken off.
std::unique_ptr<Evaluation> evaluate(models::Model& model, const Task& task, data::Loader& loader,
                                     const ComputeOptions& compute,
                                     const EvaluateOptions& options = {});

}  // namespace fovea::train
