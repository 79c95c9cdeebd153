#include "fovea/train/state/mesh_state.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/elastic/solve/adaptive_batch.h"
#include "fovea/train/ranks.h"
#include "fovea/train/session.h"
#include "fovea/train/state/concurrent_start.h"
#include "fovea/train/step/fp8_start.h"

namespace fovea::train {
namespace {

using parallel::MeshAxis;

std::unique_ptr<optim::Ema> make_ema(const TrainConfig& config, optim::Optimizer& optimizer) {
  const auto& ema = config.trainer.ema;
  if (!ema.enabled) return nullptr;
  return std::make_unique<optim::Ema>(optimizer,
                                      optim::EmaOptions{.decay = ema.decay, .warmup = ema.warmup});
}

// What of each parameter this rank trains, by the parameter's name.
std::vector<std::pair<std::string, at::Tensor>> leaves_of(const optim::Optimizer& optimizer) {
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const auto& spec : optimizer.params()) leaves.emplace_back(spec.name, spec.param);
  return leaves;
}

void check_slots(const TrainConfig& config, const Task& task) {
  if (config.parallel.slots == 0 || !task.has_loss_of_batch()) return;
  fail<ConfigError>(
      "parallel.slots: found {}, but the task's loss is one of the whole batch, which is no sum "
      "over "
      "its slots; choose a loss of samples (batch: false), or leave slots: 0",
      config.parallel.slots);
}

// Of the ranks that share out the first copy, with shard_outer all copies.
checkpoint::StoreOptions store_options(const TrainConfig& config, const parallel::DeviceMesh& mesh,
                                       const Sharing& sharing) {
  auto& owners = sharing.owners();
  auto& tp = mesh.axis(MeshAxis::kTp);
  return {.keep = config.checkpoint.keep,
          .async = config.checkpoint.async,
          .writer = owners.rank() * tp.size() + tp.rank(),
          .num_writers = owners.size() * tp.size(),
          .barrier =
              [&owners, &tp] {
                owners.barrier("the folder of a checkpoint");
                tp.barrier("the folder of a checkpoint");
              },
          .patience = config.launch.timeout,
          .others_are_lost = [&world = mesh.world()] { return world.is_abandoned(); }};
}

}  // namespace

MeshState::MeshState(const TrainConfig& run_config, const parallel::DeviceMesh& run_mesh,
                     const StepOptions& step_options)
    : MeshState(run_config, run_mesh, ModelStart(run_config, step_options.compute), step_options) {}

MeshState::MeshState(const TrainConfig& run_config, const parallel::DeviceMesh& run_mesh,
                     const ModelStart& start, const StepOptions& step_options)
    : config(run_config),
      mesh(run_mesh),
      model(start.model()),
      model_parallel(share_out_model(config, *model, mesh)),
      task(make_task(config.task, *model)),
      shards(make_shards(config, *model, mesh, start.values(*model_parallel))),
      optimizer(make_optimizer(config, *model, sharing())),
      reducer(shards ? nullptr
                     : make_reducer(config.parallel, *optimizer, data_ranks(),
                                    elastic::is_adaptive(config.elastic))),
      ema(make_ema(config, *optimizer)),
      scaler(make_grad_scaler(config)),
      options(step_options) {
  check_slots(config, *task);
  options.slots = config.parallel.slots;
  options.ranks = &data_ranks();
  options.sync = shards ? static_cast<parallel::GradientSync*>(shards.get()) : reducer.get();
  if (model_parallel->is_on()) {
    sum_over_model = std::make_unique<parallel::SumOverModel>(*options.sync, *model_parallel,
                                                              leaves_of(*optimizer));
    options.sync = sum_over_model.get();
  }
  options.check_ranks = [this] { mesh.world().check(); };
  options.scaler = scaler.get();
  options.model_parallel = model_parallel.get();
  concurrent = make_concurrent(config, *model, options);
  options.concurrent = concurrent.get();
}

void MeshState::start_fp8(int64_t samples_of_pass, const nlohmann::json* saved) {
  fp8 = make_fp8(config, *model, options.compute.device,
                 {.samples = std::max<int64_t>(1, samples_of_pass),
                  .cp = mesh.axis(MeshAxis::kCp).size(),
                  .all = &mesh.world().all(),
                  .saved = saved,
                  .are_gathered = shards != nullptr});
  options.fp8 = fp8.get();
}

void MeshState::check_same_weights() const {
  train::check_same_weights(*model, mesh, *model_parallel, shards.get());
}

checkpoint::State MeshState::save(HaveAlike alike) const {
  auto state = state_of(*model, *optimizer, ema.get(), sharing(), alike);
  state.scalars = {{"optimizer_steps", optimizer->steps_taken()}};
  if (scaler) state.scalars["grad_scaler"] = scaler->state();
  if (fp8) state.scalars["fp8"] = fp8->state();
  return state;
}

void MeshState::load(const checkpoint::State& saved) {
  load_into(*model, *optimizer, ema.get(), sharing(), saved);
  const auto of_scaler = JsonValue(saved.scalars, saved.source).find("grad_scaler");
  if ((scaler != nullptr) != of_scaler.has_value()) {
    fail<CheckpointError>(
        "{}: the checkpoint has {} loss scale, and this run {}; expected the same settings",
        saved.source, scaler ? "no" : "a", scaler ? "has one" : "has none");
  }
  if (scaler) scaler->load_state(of_scaler->raw());
}

void MeshState::leave_ranks() {
  if (shards) shards->leave_ranks();
}

void MeshState::open_checkpoints(const std::string& folder, const PublishHooks& hooks) {
  auto store = store_options(config, mesh, sharing());
  store.may_publish = hooks.may_publish;
  store.published = hooks.published;
  checkpoints = std::make_unique<checkpoint::Store>(folder, std::move(store));
}

bool MeshState::has_writers_parts() const {
  const bool is_of_first =
      sharing().has_outer_parts() || mesh.coordinate(MeshAxis::kDpReplicate) == 0;
  return is_of_first && mesh.coordinate(MeshAxis::kCp) == 0;
}

std::optional<checkpoint::State> MeshState::load_latest() {
  auto& world = mesh.world();
  const checkpoint::Agreement agreement{
      .newest =
          [&](int64_t own) {
            return std::llround(parallel::max_over_ranks(world.all(), static_cast<double>(own),
                                                         "the step to go on from"));
          },
      .fault =
          [&](const std::string& own) {
            const auto faults =
                parallel::all_gather_text(world.all(), own, "faults of a checkpoint");
            const auto first = std::find_if(faults.begin(), faults.end(),
                                            [](const auto& text) { return !text.empty(); });
            return first == faults.end() ? std::string() : *first;
          },
      .is_first = world.is_first()};
  return checkpoints->load_latest(wanted_parts(*model, *optimizer, ema.get(), sharing()),
                                  agreement);
}

models::ModelPtr MeshState::whole_model(bool is_wanted) const {
  return train::whole_model(config, model, *optimizer, sharing(), is_wanted);
}

}  // namespace fovea::train
