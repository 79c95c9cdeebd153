// Parameters shared out over dp_shard, as the optimizer and the checkpoints see them.
#pragma once

#include <memory>

#include "fovea/checkpoint/state.h"
#include "fovea/models/model.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/optimizer.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/config.h"

namespace fovea::train {

// Shares out the model's trained parameters; null where dp_shard is 1. The mesh outlives it.
// Collective.
std::unique_ptr<parallel::ShardedParams> make_shards(const parallel::ParallelConfig& config,
                                                     models::Model& model,
                                                     const parallel::DeviceMesh& mesh);

// The recipe's optimizer over this rank's parts; over the model's parameters where `shards` is
// null.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, models::Model& model,
                                                 parallel::ShardedParams* shards);

// Of tensors named as `target` ("exp_avg/head.weight", or "head.weight"), which `saved` has whole,
// what this rank has of them; a tensor that is no part is left as it is.
checkpoint::TensorMap parts_of(const checkpoint::TensorMap& saved,
                               const checkpoint::TensorMap& target,
                               const std::vector<optim::ParamSpec>& params);

// Weights, moments and averages for a checkpoint: whole, or this rank's parts. What all ranks have
// alike (frozen parameters, Adafactor's factors) stands in the state of the first of them alone.
checkpoint::State state_of(const models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
                           const parallel::ShardedParams* shards);

// A model of the same weights, all whole and in float32, on the CPU; null where it is not wanted.
// Collective.
models::ModelPtr whole_model(const TrainConfig& config, const models::Model& model,
                             const optim::Optimizer& optimizer,
                             const parallel::ShardedParams& shards, bool is_wanted);

// Puts a checkpoint's weights, which are whole, into the model or this rank's parts; moments and
// averages as well. Throws CheckpointError where names or shapes are others. Collective.
void load_into(models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
               const parallel::ShardedParams* shards, const checkpoint::State& saved);

}  // namespace fovea::train
