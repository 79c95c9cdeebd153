#include "fovea/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/attention_table.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/evaluator.h"
#include "fovea/train/feature_cache.h"
#include "fovea/train/fp8_start.h"
#include "fovea/train/inference.h"
#include "fovea/train/metric_names.h"
#include "fovea/train/model_start.h"
#include "fovea/train/model_summary.h"
#include "fovea/train/pass_size.h"
#include "fovea/train/ranks.h"
#include "fovea/train/report/report.h"
#include "fovea/train/run_clock.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/run_length.h"
#include "fovea/train/session.h"
#include "fovea/train/sharding.h"
#include "fovea/train/step_trace.h"
#include "fovea/train/stepper.h"
#include "fovea/train/take_over.h"
#include "fovea/train/training_log.h"

namespace fovea::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::unique_ptr<FeatureCache> training_cache_of(const TrainConfig& config, data::Shard shard) {
  if (config.trainer.cache_features == "none") return nullptr;
  return std::make_unique<FeatureCache>(open_training_section(config, shard));
}

std::unique_ptr<FeatureCache> validation_cache_of(const TrainConfig& config,
                                                  const data::Dataset& training,
                                                  data::Shard shard) {
  if (config.trainer.cache_features == "none" || !config.data.val) return nullptr;
  return std::make_unique<FeatureCache>(
      open_validation_section(config, training.class_names(), shard));
}

// Of the ranks that share out the first copy.
checkpoint::StoreOptions store_options(const TrainConfig& config,
                                       const parallel::DeviceMesh& mesh) {
  auto& shards = mesh.axis(parallel::MeshAxis::kDpShard);
  auto& tp = mesh.axis(parallel::MeshAxis::kTp);
  return {.keep = config.checkpoint.keep,
          .async = config.checkpoint.async,
          .writer = shards.rank() * tp.size() + tp.rank(),
          .num_writers = shards.size() * tp.size(),
          .barrier =
              [&shards, &tp] {
                shards.barrier("the folder of a checkpoint");
                tp.barrier("the folder of a checkpoint");
              },
          .patience = config.launch.timeout};
}

// "train.log" of the first process, "train.rank1.log" of the second.
std::string own_file_name(const char* stem, const char* ending, const parallel::World& world) {
  return world.is_first() ? fmt::format("{}.{}", stem, ending)
                          : fmt::format("{}.rank{}.{}", stem, world.rank(), ending);
}

}  // namespace

struct Trainer::Run {
  Run(const TrainConfig& run_config, ProgressLine::Mode mode, parallel::World& run_world);

  FitResult fit();
  void resume();
  void restore(const JsonValue& scalars);
  void take_over();
  void start_fp8();
  void find_pass_size();
  void prepare_features();
  void train_one_step();
  void log_steps();
  void evaluate_now();
  void end_step();
  void save();
  void write_evaluation(const Evaluation& evaluation) const;
  void finish();
  LogPosition log_position() const;
  checkpoint::State state();
  bool eval_is_due() const;
  bool is_over() const { return step == num_steps && !eval_is_due(); }
  bool anyone_is_told_to_stop();
  std::optional<checkpoint::State> load_latest();
  parallel::Communicator& data_ranks() const { return mesh.data_parallel(); }
  Sharing sharing() const { return {.shards = shards.get(), .layers = model_parallel.get()}; }
  bool is_writer() const { return world.is_first(); }
  // The ranks that share out the first copy.
  bool has_writers_parts() const {
    return mesh.coordinate(parallel::MeshAxis::kDpReplicate) == 0 &&
           mesh.coordinate(parallel::MeshAxis::kCp) == 0;
  }

  TrainConfig config;
  parallel::World& world;
  parallel::DeviceMesh mesh;
  std::unique_ptr<FeatureCache> training_cache;  // null: pixels are read
  DataSource training;
  int64_t steps_per_epoch, num_steps, eval_every_steps;
  optim::Schedule schedule;
  RunFolder folder;  // from here on: a recipe that the data shows to be faulty leaves none
  LogFile log_file;
  kernels::KeptAttentionTable attention;  // what is measured on a GPU, for when the run goes on
  std::unique_ptr<FeatureCache> validation_cache;
  DataSource validation;
  std::unique_ptr<FeatureSource> backbone;  // frozen, without a cache
  StepOptions options;
  std::unique_ptr<PassSize> passes;   // null: a size was given
  std::unique_ptr<ModelStart> start;  // null once the model has its values
  models::ModelPtr model;
  std::unique_ptr<parallel::ModelParallel> model_parallel;
  std::unique_ptr<Task> task;
  MetricNames checkpoint_metrics;
  std::unique_ptr<parallel::ShardedParams> shards;  // null: every rank has all parameters
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<parallel::GradientReducer> reducer;  // null with shards
  std::unique_ptr<optim::Ema> ema;
  std::unique_ptr<optim::GradScaler> scaler;  // null: losses are not scaled
  std::optional<nlohmann::json> saved_fp8;    // of the checkpoint that the run goes on from
  std::unique_ptr<Fp8Layers> fp8;             // null: off
  std::optional<Stepper> stepper;
  checkpoint::Store store;
  TrainingLog log;
  StepTrace timeline;

  int64_t step = 0;      // optimizer steps done
  int64_t position = 0;  // samples consumed, over all epochs: the state of the data
  int64_t saved_step = -1, evaluated_step = -1;
  bool is_stopping = false;  // equal on all ranks
  // What the steps cost that are not logged yet, with where they led to.
  std::vector<std::pair<StepCost, LogPosition>> unlogged;
  std::optional<double> best;
  bool is_best = false;  // the weights as they stand gave the best metric so far
  std::map<std::string, double> last_eval;
};

Trainer::Run::Run(const TrainConfig& run_config, ProgressLine::Mode mode,
                  parallel::World& run_world)
    : config(run_config),
      world(run_world),
      mesh(make_mesh(config, world)),
      training_cache(training_cache_of(config, data_shard(mesh))),
      training(training_cache ? training_cache->source()
                              : open_training_data(config, data_shard(mesh))),
      steps_per_epoch(training.loader->batches_per_epoch()),
      num_steps(total_steps(config.trainer, steps_per_epoch)),
      eval_every_steps(config.trainer.eval_every_steps.value_or(
          std::llround(config.trainer.eval_every_epochs * static_cast<double>(steps_per_epoch)))),
      schedule(config.schedule, optim::base_lr(config.optim), num_steps),
      folder(config, world.is_first() ? FolderRole::kOwner : FolderRole::kGuest),
      log_file(folder.file(own_file_name("train", "log", world)).string()),
      attention(folder.file(own_file_name("attention", "json", world)).string()),
      validation_cache(validation_cache_of(config, *training.dataset, data_shard(mesh))),
      validation(validation_cache ? validation_cache->source()
                                  : open_validation_data(config, training.dataset->class_names(),
                                                         data_shard(mesh))),
      options(step_options(config)),
      start(std::make_unique<ModelStart>(config, options.compute)),
      model(start->model()),
      model_parallel(share_out_model(config, *model, mesh)),
      task(make_task(config.task, *model)),
      checkpoint_metrics(train::checkpoint_metrics(config.checkpoint, *task)),
      shards(make_shards(config, *model, mesh, start->values(*model_parallel))),
      optimizer(make_optimizer(config, *model, sharing())),
      reducer(shards ? nullptr : make_reducer(config.parallel, *optimizer, data_ranks())),
      scaler(make_grad_scaler(config)),
      store(folder.file("checkpoints").string(), store_options(config, mesh)),
      log(folder.path().string(), config.log, mode,
          world.is_first() ? TrainingLog::Role::kWriter : TrainingLog::Role::kSilent),
      timeline(folder.path(), config.log.trace_steps, world) {
  start.reset();
  options.ranks = &data_ranks();
  options.reducer = reducer.get();
  options.shards = shards.get();
  options.scaler = scaler.get();
  options.model_parallel = model_parallel.get();
  options.notes = [this] {
    return StepNotes{.stop_requests = StopSignals::received() != 0 ? 1 : 0,
                     .bad_samples = training.loader->num_bad_sample_events()};
  };
  if (!config.trainer.micro_batch_size) find_pass_size();
  check_cacheable(config.trainer, *model);
  log.watch("train", *training.loader);
  if (validation.loader) log.watch("val", *validation.loader);
  if (world.size() > 1) log.compare(world.all());
  if (config.log.peak_tflops) log.count_flops(training_flops_per_image(config), world.size());
  if (config.trainer.ema.enabled) {
    ema = std::make_unique<optim::Ema>(
        *optimizer,
        optim::EmaOptions{.decay = config.trainer.ema.decay, .warmup = config.trainer.ema.warmup});
  }
  stepper.emplace(*model, *task, *optimizer, ema.get(), options,
                  numbers_on(options.compute.device));
}

LogPosition Trainer::Run::log_position() const {
  return {.step = step,
          .num_steps = num_steps,
          .steps_per_epoch = steps_per_epoch,
          .epoch = static_cast<double>(position) /
                   static_cast<double>(training.loader->samples_per_epoch()),
          .lr = step > 0 ? schedule.lr(step - 1) : 0};
}

checkpoint::State Trainer::Run::state() {
  auto state = state_of(*model, *optimizer, ema.get(), sharing());
  state.scalars = {{"step", step},
                   {"position", position},
                   {"optimizer_steps", optimizer->steps_taken()},
                   {"seed", config.run.seed},
                   {"evaluated_step", evaluated_step},
                   {"last_eval", last_eval},
                   {"log", log.state()}};
  if (best) state.scalars["best"] = *best;
  if (scaler) state.scalars["grad_scaler"] = scaler->state();
  if (fp8) state.scalars["fp8"] = fp8->state();
  return state;
}

// The newest one of which every rank finds whole what it needs: together that is all of it.
std::optional<checkpoint::State> Trainer::Run::load_latest() {
  const auto wanted = wanted_parts(*model, *optimizer, ema.get(), sharing());
  for (;;) {
    const double newest = world.is_first() ? static_cast<double>(store.newest().value_or(-1)) : -1;
    const auto step_found =
        std::llround(parallel::max_over_ranks(world.all(), newest, "the step to go on from"));
    if (step_found < 0) return {};
    std::optional<checkpoint::State> found;
    std::string fault;
    try {
      found = store.load(step_found, wanted);
    } catch (const CheckpointError& error) {
      fault = error.what();
    }
    const auto faults = parallel::all_gather_text(world.all(), fault, "faults of a checkpoint");
    const auto first = std::find_if(faults.begin(), faults.end(),
                                    [](const std::string& text) { return !text.empty(); });
    if (first == faults.end()) return found;
    if (world.is_first()) store.refuse(step_found, *first);
  }
}

void Trainer::Run::resume() {
  auto found = load_latest();
  if (!found) return take_over();
  try {
    load_into(*model, *optimizer, ema.get(), sharing(), *found);
    restore({found->scalars, found->source});
  } catch (const DataError& error) {
    throw CheckpointError(error.what());
  }
  check_not_beyond(step, num_steps);
  log_info(fmt::format("{}: going on from step {} of {}", folder.path().string(), step, num_steps));
  if (const auto* before = folder.config_before()) {
    const auto notice = length_notice(*before, config, steps_per_epoch, step);
    if (!notice.empty()) log_info(fmt::format("{}: {}", folder.path().string(), notice));
  }
}

void Trainer::Run::restore(const JsonValue& scalars) {
  step = saved_step = static_cast<int64_t>(scalars.at("step").count());
  position = static_cast<int64_t>(scalars.at("position").count());
  evaluated_step = scalars.at("evaluated_step").integer();
  for (const auto& [name, value] : scalars.at("last_eval").members())
    last_eval[name] = value.number();
  if (const auto found = scalars.find("best")) best = found->number();
  const auto of_scaler = scalars.find("grad_scaler");
  if ((scaler != nullptr) != of_scaler.has_value()) {
    fail<CheckpointError>(
        "{}: the checkpoint of step {} has {} loss scale, and this run {}; expected the same "
        "settings",
        folder.path().string(), step, scaler ? "no" : "a", scaler ? "has one" : "has none");
  }
  if (scaler) scaler->load_state(of_scaler->raw());
  if (const auto found = scalars.find("fp8")) saved_fp8 = found->raw();
  log.restore(scalars.at("log"));
}

// The steps of another system's run count as this one's.
void Trainer::Run::take_over() {
  step = take_over_run(config, *model, *optimizer, ema.get(), sharing());
  if (step == 0) return;
  if (step >= num_steps) {
    fail<ConfigError>(
        "init.step: {} steps were done, and the run has {} in all; trainer.max_steps and "
        "max_epochs "
        "count from the first step of the run that is taken over: set more, or init.step=0 for a "
        "new schedule",
        step, num_steps);
  }
  position = training.loader->position_of(step);
  log_info(fmt::format("{}: going on from step {} of {}, with learning rate {:.4g}",
                       folder.path().string(), step, num_steps, schedule.lr(step)));
}

// trainer.micro_batch_size: auto; from what an earlier start has come to.
void Trainer::Run::find_pass_size() {
  const auto path = folder.file("micro_batch.json").string();
  const double kept = world.is_first() ? static_cast<double>(kept_pass_size(path)) : 0;
  options.micro_batch_size =
      std::llround(parallel::max_over_ranks(world.all(), kept, "the size of micro-batches"));
  passes = std::make_unique<PassSize>(
      options.micro_batch_size,
      [this, path](int64_t size, int64_t from, const std::string& fault, bool goes_on) {
        if (goes_on && !world.is_first()) return;
        keep_pass_size(path, size);
        if (!goes_on) return;  // the error says it
        log.say(fmt::format(
            "trainer.micro_batch_size: memory ran out in a pass of {} samples ({}); going on with "
            "passes of {}, which {} keeps for the next start",
            from, fault, size, path));
      });
  options.passes = passes.get();
}

// After resume, which knows what was chosen before.
void Trainer::Run::start_fp8() {
  if (is_over()) return;  // it multiplies nothing
  const auto of_pass = options.micro_batch_size > 0
                           ? options.micro_batch_size
                           : config.data.global_batch_size / data_ranks().size();
  fp8 = make_fp8(config, *model, options.compute.device,
                 {.samples = std::max<int64_t>(1, of_pass),
                  .cp = mesh.axis(parallel::MeshAxis::kCp).size(),
                  .all = &world.all(),
                  .saved = saved_fp8 ? &*saved_fp8 : nullptr,
                  .are_gathered = options.shards != nullptr});
  options.fp8 = fp8.get();
}

// After resume, which has the last word on the weights of the backbone.
void Trainer::Run::prepare_features() {
  if (!training_cache) {
    if (!has_frozen_backbone(config.trainer, *model)) return;
    backbone = std::make_unique<FrozenBackbone>(*model);
    options.features = backbone.get();
    return;
  }
  options.features = training_cache.get();
  if (is_over()) return;  // it needs none
  const auto pass = [&](FeatureCache& cache, const char* split) {
    cache.compute(*model, {.compute = options.compute,
                           .micro_batch_size = options.micro_batch_size,
                           .on_progress =
                               [&](int64_t done, int64_t total) {
                                 log.progress().update(
                                     fmt::format("features of {} {}/{}", split, done, total));
                               },
                           .ranks = &data_ranks()});
  };
  pass(*training_cache, "train");
  if (validation_cache) pass(*validation_cache, "val");
}

void Trainer::Run::train_one_step() {
  const auto start = Clock::now();
  world.at_step(step);
  world.take_wait_seconds();  // what an evaluation took is no step's
  timeline.before_step();
  auto batch = [&] {
    const trace::Scope data("data");
    return training.loader->next();
  }();
  const auto notes = stepper->take(batch, step, schedule.lr(step));
  if (notes.bad_samples > 0) share_bad_samples(*training.loader, data_ranks());
  is_stopping = notes.stop_requests > 0;
  step += 1;
  position += batch.global_size;
  is_best = false;
  unlogged.push_back({{.images = batch.global_size,
                       .seconds = seconds_since(start),
                       .wait_seconds = training.loader->take_wait_seconds(),
                       .comm_seconds = world.take_wait_seconds()},
                      log_position()});
  if (!stepper->is_late() || log.is_line_due(stepper->num_taken(), log_position())) log_steps();
  training.loader->recycle(std::move(batch));
  timeline.after_step();
}

// Steps whose numbers are with the device take as long as the wait for them says, each its share.
void Trainer::Run::log_steps() {
  const auto start = Clock::now();
  const auto outcomes = stepper->outcomes();
  const double share =
      seconds_since(start) / static_cast<double>(std::max<size_t>(1, outcomes.size()));
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const auto& outcome = outcomes[i];
    auto& [cost, led_to] = unlogged.at(i);
    if (outcome.is_skipped) {
      log.say(fmt::format(
          "step {}: left out, as loss {} and gradient norm {} are not both finite; the loss scale "
          "falls to {}",
          led_to.step - 1, outcome.loss, std::abs(outcome.grad_norm), outcome.loss_scale));
    }
    cost.seconds += share;
    log.add(outcome, cost, led_to);
  }
  unlogged.clear();
}

bool Trainer::Run::eval_is_due() const {
  if (!validation.loader || evaluated_step == step) return false;
  return step == num_steps || (eval_every_steps > 0 && step > 0 && step % eval_every_steps == 0);
}

void Trainer::Run::evaluate_now() {
  log_steps();
  const optim::EmaScope with_average(ema.get());
  const auto evaluation =
      evaluate(*model, *task, *validation.loader, options.compute,
               {.on_progress =
                    [&](int64_t done, int64_t total) {
                      log.progress().update(fmt::format("evaluating {}/{}", done, total));
                    },
                .should_stop = [&] { return anyone_is_told_to_stop(); },
                .features = validation_cache.get(),
                .ranks = &data_ranks(),
                .shards = shards.get()});
  if (!evaluation) {  // the next start evaluates
    log.say(fmt::format("step {}: told to stop; the evaluation is left to the next start", step));
    is_stopping = true;
    return;
  }
  share_bad_samples(*validation.loader, data_ranks());
  std::array left_out = {static_cast<double>(validation.loader->take_skipped_rows())};
  parallel::sum_over_ranks(data_ranks(), left_out, "samples left out");
  last_eval = evaluation->metrics();
  evaluated_step = step;
  const double value = last_eval.at(checkpoint_metrics.best);
  is_best = !best || improves(checkpoint_metrics.best, value, *best);
  if (is_best) best = value;
  log.add_evaluation(last_eval, std::llround(left_out[0]), log_position());
  std::string text;
  for (const auto& [name, metric] : last_eval) text += fmt::format("  {} {:.4g}", name, metric);
  log.say(
      fmt::format("step {}: evaluation of {} samples:{}", step, evaluation->num_samples(), text));
  if (step == num_steps && is_writer()) write_evaluation(*evaluation);
  is_stopping = anyone_is_told_to_stop();
}

bool Trainer::Run::anyone_is_told_to_stop() {
  const double is_told = StopSignals::received() != 0 ? 1 : 0;
  return parallel::max_over_ranks(world.all(), is_told, "signals to stop") > 0;
}

void Trainer::Run::write_evaluation(const Evaluation& evaluation) const {
  EvaluationFile file;
  file.metrics = evaluation.metrics();
  file.num_samples = evaluation.num_samples();
  evaluation.describe(file, *validation.dataset);
  file.step = step;
  file.epoch = log_position().epoch;
  file.num_left_out = log.num_left_out();
  write_evaluation_file(folder.file("evaluation.json"), file);
}

void Trainer::Run::save() {
  log_steps();  // weights after a step that was not finite are not saved
  const auto& name = checkpoint_metrics.label;
  const bool has_label = evaluated_step == step && !name.empty();
  if (has_writers_parts()) {
    store.save(step, state(), is_best,
               has_label ? fmt::format("{}_{:.3f}", name, last_eval.at(name)) : "");
  }
  saved_step = step;
}

// What follows a step, where it is due.
void Trainer::Run::end_step() {
  if (eval_is_due()) evaluate_now();
  if (is_best || step % config.checkpoint.every_steps == 0) save();
  store.check();
}

FitResult Trainer::Run::fit() {
  resume();
  start_fp8();
  folder.write_config(config);
  std::optional<RunClock> clock;
  if (is_writer()) clock.emplace(folder.file("machine.json"), options.compute);
  check_same_weights(*model, mesh, *model_parallel, shards.get());
  {
    const parallel::ShardedParams::WholeScope whole(training_cache ? shards.get() : nullptr);
    prepare_features();
  }
  use_graphs(*stepper, config.device, options.compute.device);
  log.start(step);
  training.loader->seek(position);
  const StopSignals signals;
  is_stopping = anyone_is_told_to_stop();
  if (step == saved_step && eval_is_due() && !is_stopping) {  // a stop broke it off
    saved_step = -1;
    end_step();
  }
  while (step < num_steps && !is_stopping) {
    train_one_step();
    end_step();
  }
  if (step != saved_step) save();
  timeline.finish();
  store.wait();
  log.say_ranks();
  FitResult result{.run_dir = folder.path().string(),
                   .step = step,
                   .epoch = log_position().epoch,
                   .stopped = !is_over(),
                   .last_eval = last_eval};
  clock.reset();  // the report says when the run ended
  if (!result.stopped && has_writers_parts()) finish();
  if (result.stopped) folder.mark_stopped(step);
  world.at_operation("at the end");
  world.all().barrier("the end of the training");
  return result;
}

void Trainer::Run::finish() {
  const optim::EmaScope with_average(ema.get());
  const auto whole = whole_model(config, model, *optimizer, sharing(), is_writer());
  if (!is_writer()) return;
  save_inference_weights(folder.file("weights.safetensors").string(), *whole, config,
                         training.dataset->class_names());
  write_report({folder.path()});
}

Trainer::Trainer(const TrainConfig& config, ProgressLine::Mode progress, parallel::World& world) {
  if (!config.phases.empty()) {
    fail<ConfigError>("phases: found {}; a Trainer trains one, fit_phases all of them",
                      config.phases.size());
  }
  run_ = std::make_unique<Run>(config, progress, world);
}

Trainer::~Trainer() = default;

FitResult Trainer::fit() {
  try {
    return run_->fit();
  } catch (const Error& error) {
    log_to_file(error.what());
    run_->world.fail(error.what(), error.exit_code());
    throw;
  } catch (const std::exception& error) {
    log_to_file(error.what());
    throw;
  }
}

}  // namespace fovea::train
