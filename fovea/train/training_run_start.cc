// A run until its first step: what it is made of, and where it goes on from.
#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/stop_signals.h"
#include "fovea/kernels/attention/attention_table.h"
#include "fovea/kernels/linear/product_choices.h"
#include "fovea/train/bench/model_summary.h"
#include "fovea/train/ranks.h"
#include "fovea/train/run/run_length.h"
#include "fovea/train/run/take_over.h"
#include "fovea/train/training_run.h"

namespace fovea::train {
namespace {

// What an earlier start has written of batches that changed their size counts where the recipe
// names no file.
TrainConfig with_sizes_of_run(TrainConfig config) {
  if (elastic::is_adaptive(config.elastic)) return config;  // its checkpoint has them
  const auto file = config.run.dir + "/" + kBatchScheduleFile;
  if (config.data.batch_schedule.empty() && is_there(file)) config.data.batch_schedule = file;
  return config;
}

std::unique_ptr<FeatureCache> training_cache_of(const TrainConfig& config,
                                                const data::BatchShare& share) {
  if (config.trainer.cache_features == "none") return nullptr;
  return std::make_unique<FeatureCache>(open_training_setup(with_sizes_of_run(config), share));
}

std::unique_ptr<FeatureCache> validation_cache_of(const TrainConfig& config,
                                                  const data::Dataset& training,
                                                  const data::BatchShare& share) {
  if (config.trainer.cache_features == "none" || !config.data.val) return nullptr;
  return std::make_unique<FeatureCache>(
      open_validation_setup(config, training.class_names(), share));
}

// "train.log" of the first process, "train.rank1.log" of the second.
std::string own_file_name(const char* stem, const char* ending, const RunProcess& process) {
  return process.suffix.empty() ? fmt::format("{}.{}", stem, ending)
                                : fmt::format("{}.{}.{}", stem, process.suffix, ending);
}

}  // namespace

RunProcess process_of(const parallel::World& world) {
  if (world.is_first()) return {};
  return {.role = FolderRole::kGuest, .suffix = fmt::format("rank{}", world.rank())};
}

RunShares shares_of(const parallel::DeviceMesh& mesh, const parallel::ParallelConfig& config) {
  return {.training = data_share(mesh, config), .validation = data_share(mesh)};
}

TrainingRun::TrainingRun(const TrainConfig& run_config, ProgressLine::Mode mode,
                         const RunProcess& process, const RunShares& shares)
    : config(run_config),
      progress(mode),
      training_cache(training_cache_of(config, shares.training)),
      training(training_cache ? training_cache->source()
                              : open_training_data(with_sizes_of_run(config), shares.training)),
      length(run_length(config.trainer, order())),
      eval_every_steps(config.trainer.eval_every_steps.value_or(std::llround(
          config.trainer.eval_every_epochs * static_cast<double>(order().batches_per_epoch())))),
      schedule(config.schedule, optim::base_lr(config.optim), length.first_size_steps),
      folder(config, process.role),
      log_file(folder.file(own_file_name("train", "log", process)).string()),
      attention(kernels::attention_table().choices(),
                folder.file(own_file_name("attention", "json", process)).string()),
      products(kernels::product_choices(),
               folder.file(own_file_name("products", "json", process)).string()),
      validation_cache(validation_cache_of(config, *training.dataset, shares.validation)),
      validation(validation_cache ? validation_cache->source()
                                  : open_validation_data(config, training.dataset->class_names(),
                                                         shares.validation)) {
  if (!elastic::is_adaptive(config.elastic)) return;
  const auto batch = config.data.global_batch_size;
  adaptive.emplace(elastic::adaptive_options(config.elastic, batch), batch);
}

void TrainingRun::enter(parallel::World& new_world,
                        std::unique_ptr<parallel::DeviceMesh> new_mesh) {
  Place next;
  next.world = &new_world;
  next.mesh = std::move(new_mesh);
  next.state = std::make_unique<MeshState>(config, *next.mesh, step_options(config));
  place = std::move(next);
  unlogged.clear();
  checkpoint_metrics = train::checkpoint_metrics(config.checkpoint, *state().task);
  const auto role = is_writer() ? TrainingLog::Role::kWriter : TrainingLog::Role::kSilent;
  if (log) {
    log->set_role(role);
  } else {
    log.emplace(folder.path().string(), config.log, progress, role);
    log->watch("train", *training.loader);
    if (validation.loader) log->watch("val", *validation.loader);
    log->set_fence(hooks.may_publish);
  }
  timeline.emplace(folder.path(), config.log.trace_steps, world());
  if (!hooks.are_set()) check_same_batches(order(), world());
  if (state().ema) {
    state().ema->count_warmup([this](int64_t steps) { return order().first_size_steps(steps); });
  }
  state().open_checkpoints(folder.file("checkpoints").string(),
                           {.may_publish = hooks.may_publish, .published = hooks.published});
  state().options.notes = [this] { return notes_of_step(); };
  // Members of a run that changes have passes of one size, so that their sums do not hang on who
  // computes them.
  if (!config.trainer.micro_batch_size && !hooks.are_set()) find_pass_size();
  check_cacheable(config.trainer, *state().model);
  log->compare(world().size() > 1 ? &world().all() : nullptr);
  if (config.log.peak_tflops) log->count_flops(training_flops_per_image(config), world().size());
  if (hooks.are_set()) {
    place.steps = std::make_unique<StepProgress>();
    state().options.progress = place.steps.get();
  }
  const auto numbers =
      hooks.are_set() ? Numbers::kAtOnce : numbers_on(state().options.compute.device);
  place.stepper = std::make_unique<Stepper>(state().step_parts(), numbers);
}

StepNotes TrainingRun::notes_of_step() {
  StepNotes notes{.bad_samples = training.loader->num_bad_sample_events()};
  if (!hooks.are_set()) {
    notes.stop_requests = StopSignals::received() != 0 || observer_said_stop ? 1 : 0;
    return notes;
  }
  if (hooks.computed) hooks.computed(*batch, step);
  notes.changes = hooks.change_is_due(step + 1) ? 1 : 0;
  return notes;
}

void TrainingRun::resume() {
  auto found = state().load_latest();
  if (!found) return take_over();
  try {
    state().load(*found);
    if (adaptive) adopt_batch_schedule({found->scalars, found->source});
    restore({found->scalars, found->source});
    check_batches_done({found->scalars, found->source});
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
  check_not_beyond(step, length.steps);
  log_info(
      fmt::format("{}: going on from step {} of {}", folder.path().string(), step, length.steps));
  if (const auto* before = folder.config_before()) {
    const auto notice = length_notice(*before, config, order(), step);
    if (!notice.empty()) log_info(fmt::format("{}: {}", folder.path().string(), notice));
  }
}

void TrainingRun::take(const checkpoint::State& laid_out) {
  state().load(laid_out);
  const JsonValue scalars(laid_out.scalars, laid_out.source);
  adopt_batch_schedule(scalars);
  restore(scalars);
}

void TrainingRun::restore(const JsonValue& scalars) {
  step = saved_step = ended_step = static_cast<int64_t>(scalars.at("step").count());
  position = static_cast<int64_t>(scalars.at("position").count());
  evaluated_step = scalars.at("evaluated_step").integer();
  for (const auto& [name, value] : scalars.at("last_eval").members())
    last_eval[name] = value.number();
  if (const auto found = scalars.find("best")) best = found->number();
  if (const auto found = scalars.find("fp8")) saved_fp8 = found->raw();
  restore_batch(scalars);
  log->restore(scalars.at("log"));
}

// The steps of another system's run count as this one's.
void TrainingRun::take_over() {
  step = take_over_run(config, *state().model, *state().optimizer, state().ema.get(),
                       state().sharing());
  if (step == 0) return;
  if (step >= length.steps) {
    fail<ConfigError>(
        "init.step: {} steps were done, and the run has {} in all; trainer.max_steps and "
        "max_epochs "
        "count from the first step of the run that is taken over: set more, or init.step=0 for a "
        "new schedule",
        step, length.steps);
  }
  ended_step = step;
  position = training.loader->position_of(step);
  log_info(fmt::format("{}: going on from step {} of {}, with learning rate {:.4g}",
                       folder.path().string(), step, length.steps, lr(step)));
}

// trainer.micro_batch_size: auto; from what an earlier start has come to.
void TrainingRun::find_pass_size() {
  const auto path = folder.file("micro_batch.json").string();
  const double kept = world().is_first() ? static_cast<double>(kept_pass_size(path)) : 0;
  state().options.micro_batch_size =
      std::llround(parallel::max_over_ranks(world().all(), kept, "the size of micro-batches"));
  passes = std::make_unique<PassSize>(
      state().options.micro_batch_size,
      [this, path](int64_t size, int64_t from, const std::string& fault, bool goes_on) {
        if (goes_on && !world().is_first()) return;
        keep_pass_size(path, size);
        if (!goes_on) return;  // the error says it
        log->say(fmt::format(
            "trainer.micro_batch_size: memory ran out in a pass of {} samples ({}); going on with "
            "passes of {}, which {} keeps for the next start",
            from, fault, size, path));
      });
  state().options.passes = passes.get();
}

// After resume, which knows what was chosen before.
void TrainingRun::start_fp8() {
  if (is_over()) return;  // it multiplies nothing
  const auto of_pass = state().options.micro_batch_size > 0
                           ? state().options.micro_batch_size
                           : config.data.global_batch_size / state().data_ranks().size();
  state().start_fp8(of_pass, saved_fp8 ? &*saved_fp8 : nullptr);
}

// After resume, which has the last word on the weights of the backbone.
void TrainingRun::prepare_features() {
  if (!training_cache) {
    if (!has_frozen_backbone(config.trainer, *state().model)) return;
    backbone = std::make_unique<FrozenBackbone>(*state().model);
    state().options.features = backbone.get();
    return;
  }
  state().options.features = training_cache.get();
  if (is_over()) return;  // it needs none
  const auto pass = [&](FeatureCache& cache, const char* split) {
    cache.compute(*state().model, {.compute = state().options.compute,
                                   .micro_batch_size = state().options.micro_batch_size,
                                   .on_progress =
                                       [&](int64_t done, int64_t total) {
                                         log->progress().update(fmt::format("features of {} {}/{}",
                                                                            split, done, total));
                                       },
                                   .ranks = &state().data_ranks()});
  };
  pass(*training_cache, "train");
  if (validation_cache) pass(*validation_cache, "val");
}

}  // namespace fovea::train
