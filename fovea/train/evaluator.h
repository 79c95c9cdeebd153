// Metrics of a model over a whole data set.
#pragma once

#include <memory>

#include "fovea/data/loader.h"
#include "fovea/parallel/communicator.h"
#include "fovea/train/features.h"
#include "fovea/train/task.h"
#include "fovea/train/tensor_batch.h"

namespace fovea::train {

// One pass over the loader's data set, without gradients and in evaluation mode (restored after).
// The loader must not shuffle nor drop the last batch. on_progress(done, total) after each batch,
// where given. features: where the features of the loader's samples come from; null: the model runs
// as a whole. ranks: each evaluates its loader's shard, and all get the evaluation of the whole
// data set.
std::unique_ptr<Evaluation> evaluate(models::Model& model, const Task& task, data::Loader& loader,
                                     const ComputeOptions& compute,
                                     const OnProgress& on_progress = {},
                                     FeatureSource* features = nullptr,
                                     parallel::Communicator& ranks = parallel::one_rank());

}  // namespace fovea::train
