// Parameters shared out over dp_shard and tp, as the optimizer and the checkpoints see them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/checkpoint/state.h"
#include "fovea/models/model.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/optimizer.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/model_parallel.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// Who has which parts of a model: a parameter is cut among the ranks of tp first, then each cut is
// shared out over dp_shard, and with shard_outer over dp_replicate. The ranks of all together have
// one copy of what the optimizer keeps.
struct Sharing {
  parallel::ShardedParams* shards = nullptr;        // null: data parallel ranks have all alike
  const parallel::ModelParallel* layers = nullptr;  // null: tp is 1

  bool is_on() const { return shards != nullptr || tp_size() > 1; }
  // Of the ranks that have a copy: one counts and saves what all have alike.
  bool is_first() const { return owners().rank() == 0 && tp_rank() == 0; }
  // The ranks of data parallel that have different parts.
  parallel::Communicator& owners() const {
    return shards ? shards->owners() : parallel::one_rank();
  }
  bool has_outer_parts() const { return shards != nullptr && shards->has_outer_parts(); }
  int64_t tp_rank() const { return layers ? layers->tp().rank() : 0; }
  int64_t tp_size() const { return layers ? layers->tp().size() : 1; }
  // x becomes its sum over the ranks that have a copy. Collective over them.
  void sum(const at::Tensor& x, const std::string& what) const;
};

// Shares out the model's trained parameters, or what tp has left of them; null where the recipe
// shares out nothing over data parallel ranks. The mesh outlives it. values: of a model on the meta
// device, of which every parameter has memory and values then (see model_start.h). Collective.
std::unique_ptr<parallel::ShardedParams> make_shards(const TrainConfig& config,
                                                     models::Model& model,
                                                     const parallel::DeviceMesh& mesh,
                                                     const parallel::ParamValues& values = {});

// The recipe's optimizer over what this rank has of the parameters. What `sharing` points to
// outlives it.
std::unique_ptr<optim::Optimizer> make_optimizer(const TrainConfig& config, models::Model& model,
                                                 const Sharing& sharing);

// Of tensors named as `target` ("exp_avg/head.weight", or "head.weight"), which `saved` has whole,
// what this rank has of them; a tensor that is no part is left as it is.
checkpoint::TensorMap parts_of(const checkpoint::TensorMap& saved,
                               const checkpoint::TensorMap& target,
                               const std::vector<optim::ParamSpec>& params);

// What several ranks have alike: norms under tp, frozen parameters, Adafactor's factors.
enum class HaveAlike {
  kFirst,  // stands in the state of the first of them: for a checkpoint
  kEach,   // of each of them: what each has in its memory
};

// Weights, moments and averages: whole, or this rank's parts.
checkpoint::State state_of(const models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
                           const Sharing& sharing, HaveAlike alike = HaveAlike::kFirst);

// A model of the same weights, all whole and in float32, on the CPU; `model` itself where nothing
// is shared out, null where it is not wanted. Collective over the ranks that have a copy.
models::ModelPtr whole_model(const TrainConfig& config, const models::ModelPtr& model,
                             const optim::Optimizer& optimizer, const Sharing& sharing,
                             bool is_wanted);

// What this rank needs of a checkpoint: its parts, whatever mesh wrote them.
checkpoint::WantedParts wanted_parts(const models::Model& model, optim::Optimizer& optimizer,
                                     optim::Ema* ema, const Sharing& sharing);

// Puts a checkpoint's weights, whole or as wanted_parts asks for them, into the model or this
// rank's parts; moments and averages as well. Throws CheckpointError where names or shapes are
// others. Collective.
void load_into(models::Model& model, optim::Optimizer& optimizer, optim::Ema* ema,
               const Sharing& sharing, const checkpoint::State& saved);

}  // namespace fovea::train
