// What the processes of a run tell each other besides gradients.
#pragma once

#include <memory>

#include "fovea/data/loader.h"
#include "fovea/models/model.h"
#include "fovea/optim/optimizer.h"
#include "fovea/parallel/ddp.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/model_parallel.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// All are collective over the world or the group that they are given.

// Throws ConfigError on every rank where one was started with another config than the first: which
// one, and the keys that differ.
void check_same_config(const TrainConfig& config, parallel::World& world);

// Throws ConfigError on every rank where one reads batches of other sizes than the first.
void check_same_batches(const data::SampleOrder& order, parallel::World& world);

// The mesh that the config asks for, after check_same_config. Throws ConfigError.
parallel::DeviceMesh make_mesh(const TrainConfig& config, parallel::World& world);

// The rows of every batch that this rank reads; of an evaluation, which has no slots, with the
// defaults. Throws ConfigError: fewer slots than ranks.
data::BatchShare data_share(const parallel::DeviceMesh& mesh,
                            const parallel::ParallelConfig& config = {});

// Shares out the model's layers and tokens, and sets up what is recomputed, as the config says.
// Throws ConfigError.
std::unique_ptr<parallel::ModelParallel> share_out_model(const TrainConfig& config,
                                                         models::Model& model,
                                                         const parallel::DeviceMesh& mesh);

// Throws Error on every rank where the weights of one are not those of the first, naming the first
// parameter that differs. Parts are compared with those of the ranks that have the same. shards:
// null, or whoever has the parameters' parts.
void check_same_weights(const models::Model& model, const parallel::DeviceMesh& mesh,
                        const parallel::ModelParallel& model_parallel,
                        const parallel::ShardedParams* shards = nullptr);

// Sums the optimizer's gradients over the ranks that read other samples; by slot where the
// config says so, then with what the halves of a batch come to, where that is asked for.
std::unique_ptr<parallel::GradientSync> make_reducer(const parallel::ParallelConfig& config,
                                                     optim::Optimizer& optimizer,
                                                     parallel::Communicator& ranks,
                                                     bool measures_halves = false);

// Bad samples that one rank met become known to all, so that there is one list and one budget.
// Throws DataError on every rank where the budget is over.
void share_bad_samples(data::Loader& loader, parallel::Communicator& ranks);

}  // namespace fovea::train
