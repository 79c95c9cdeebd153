// What of a run lies on one mesh of processes. Recipe, data set, run folder, log and schedule are
// none of it: they go on where a mesh is left for another.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "fovea/checkpoint/store.h"
#include "fovea/models/model.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/grad_scaler.h"
#include "fovea/optim/optimizer.h"
#include "fovea/parallel/ddp.h"
#include "fovea/parallel/mesh.h"
#include "fovea/parallel/model_parallel.h"
#include "fovea/parallel/sharded_params.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/state/model_start.h"
#include "fovea/train/state/sharding.h"
#include "fovea/train/step/concurrent_passes.h"
#include "fovea/train/step/fp8_layers.h"
#include "fovea/train/step/step.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

// Of checkpoint::StoreOptions; empty where this process alone decides.
struct PublishHooks {
  std::function<checkpoint::Publishing()> may_publish = {};
  std::function<void(const checkpoint::Published&)> published = {};
};

// This rank's part of the model and what was made for it: what a step works on, and what a
// checkpoint has. Another mesh gets one of its own, with values from a checkpoint.
struct MeshState {
  // With init.weights or step-0 values, for steps with `options` (session.h: step_options), of
  // which what lies on the mesh is set here. Config and mesh outlive this. Collective over the
  // mesh. Throws ConfigError.
  MeshState(const TrainConfig& config, const parallel::DeviceMesh& mesh,
            const StepOptions& options);
  // With the values of `start`.
  MeshState(const TrainConfig& config, const parallel::DeviceMesh& mesh, const ModelStart& start,
            const StepOptions& options);
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;

  Sharing sharing() const { return {.shards = shards.get(), .layers = model_parallel.get()}; }
  parallel::Communicator& data_ranks() const { return mesh.data_parallel(); }

  // What prepare_step and apply_step work on.
  StepParts step_parts() const {
    return {.model = *model,
            .task = *task,
            .optimizer = *optimizer,
            .options = options,
            .ema = ema.get()};
  }

  // device.fp8, with passes of so many samples. saved: of the checkpoint that the run goes on from,
  // or null. Collective. Throws ConfigError.
  void start_fp8(int64_t samples_of_pass, const nlohmann::json* saved);

  // Throws Error on every rank where the ranks' weights are not the same.
  void check_same_weights() const;

  // Weights, moments, averages and counters, without what the run adds. kEach: all that this rank
  // has, views of it; what another mesh is laid out from, also when the ranks of this one are lost.
  checkpoint::State save(HaveAlike alike = HaveAlike::kFirst) const;
  // The reverse, whatever mesh it was saved on, but for FP8's scales, which start_fp8 takes.
  // Throws CheckpointError. Collective.
  void load(const checkpoint::State& saved);

  // The other ranks of the mesh are lost: what is left is to finish the step under way
  // (finish_step) and to give what this rank has to another mesh.
  void leave_ranks();

  // A folder of checkpoints, of which the ranks that share out the first copy write their parts,
  // with shard_outer those of all copies.
  void open_checkpoints(const std::string& folder, const PublishHooks& hooks = {});
  bool has_writers_parts() const;
  // The newest one of which every rank finds whole what it needs: together that is all of it.
  // Those that are newer are refused. Collective over the world.
  std::optional<checkpoint::State> load_latest();

  // A model with all of the weights, on the CPU; `model` itself where nothing is shared out, null
  // where it is not wanted. Collective over the ranks that have a copy.
  models::ModelPtr whole_model(bool is_wanted) const;

  const TrainConfig& config;
  const parallel::DeviceMesh& mesh;
  models::ModelPtr model;
  std::unique_ptr<parallel::ModelParallel> model_parallel;
  std::unique_ptr<Task> task;
  std::unique_ptr<parallel::ShardedParams> shards;  // null: every rank has all parameters
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<parallel::GradientSync> reducer;         // null with shards
  std::unique_ptr<parallel::SumOverModel> sum_over_model;  // null: layers are whole
  std::unique_ptr<optim::Ema> ema;                         // null: there is none
  std::unique_ptr<optim::GradScaler> scaler;               // null: losses are not scaled
  std::unique_ptr<Fp8Layers> fp8;                          // null: off, or not started
  std::unique_ptr<ConcurrentPasses> concurrent;            // null: one pass after another
  std::unique_ptr<checkpoint::Store> checkpoints;          // null until they are opened
  StepOptions options;                                     // of steps on the above
};

}  // namespace fovea::train
