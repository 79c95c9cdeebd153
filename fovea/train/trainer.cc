#include "fovea/train/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/core/trace.h"
#include "fovea/train/metric_names.h"
#include "fovea/train/ranks.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/report/report.h"
#include "fovea/train/run/run_clock.h"
#include "fovea/train/trainer_run.h"

namespace fovea::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

LogPosition Trainer::Run::log_position() const {
  const int64_t before = std::max<int64_t>(step - 1, 0);
  const bool may_change = !config.data.batch_schedule.empty() || order().has_changes();
  return {.step = step,
          .num_steps = length.steps,
          .epoch = order().epochs_before(position),
          .lr = step > 0 ? lr(before) : 0,
          .first_size_step = order().first_size_steps(before),
          .first_size_steps = length.first_size_steps,
          .steps_per_epoch = order().batches_per_epoch(),
          .samples_left = std::max<int64_t>(order().position_of(length.steps) - position, 0),
          .batch_size = may_change ? order().batch_size_at(order().position_of(before)) : 0};
}

bool Trainer::Run::has_reached_multiple_of(int64_t steps) const {
  const auto multiples = [&](int64_t batches) {
    return std::floor(order().first_size_steps(batches) / static_cast<double>(steps));
  };
  return step > 0 && multiples(step) > multiples(step - 1);
}

checkpoint::State Trainer::Run::checkpoint() {
  auto saved = state.save();
  saved.scalars.update({{"step", step},
                        {"position", position},
                        {"lr", lr(step)},  // of the next step
                        {"seed", config.run.seed},
                        {"evaluated_step", evaluated_step},
                        {"last_eval", last_eval},
                        {"log", log.state()}});
  if (best) saved.scalars["best"] = *best;
  if (order().has_changes()) {
    auto& sizes = saved.scalars["batch_schedule"] = nlohmann::json::array();
    for (const auto& change : data::schedule_before(order().batch_schedule(), position)) {
      sizes.push_back({change.position, change.size});
    }
  }
  return saved;
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
  const auto notes = stepper->take(batch, step, lr(step));
  if (notes.bad_samples > 0) share_bad_samples(*training.loader, state.data_ranks());
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
  return step == length.steps ||
         (eval_every_steps > 0 && has_reached_multiple_of(eval_every_steps));
}

void Trainer::Run::evaluate_now() {
  log_steps();
  const optim::EmaScope with_average(state.ema.get());
  const auto evaluation =
      evaluate(*state.model, *state.task, *validation.loader, state.options.compute,
               {.on_progress =
                    [&](int64_t done, int64_t total) {
                      log.progress().update(fmt::format("evaluating {}/{}", done, total));
                    },
                .should_stop = [&] { return anyone_is_told_to_stop(); },
                .features = validation_cache.get(),
                .ranks = &state.data_ranks(),
                .shards = state.shards.get()});
  if (!evaluation) {  // the next start evaluates
    log.say(fmt::format("step {}: told to stop; the evaluation is left to the next start", step));
    is_stopping = true;
    return;
  }
  share_bad_samples(*validation.loader, state.data_ranks());
  std::array left_out = {static_cast<double>(validation.loader->take_skipped_rows())};
  parallel::sum_over_ranks(state.data_ranks(), left_out, "samples left out");
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
  if (step == length.steps && is_writer()) write_evaluation(*evaluation);
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
  if (state.has_writers_parts()) {
    state.checkpoints->save(step, checkpoint(), is_best,
                            has_label ? fmt::format("{}_{:.3f}", name, last_eval.at(name)) : "");
  }
  saved_step = step;
}

// What follows a step, where it is due.
void Trainer::Run::end_step() {
  if (eval_is_due()) evaluate_now();
  if (is_best || has_reached_multiple_of(config.checkpoint.every_steps)) save();
  state.checkpoints->check();
}

FitResult Trainer::Run::fit() {
  if (config.parallel.shard_outer != "none" && !state.sharing().has_outer_parts()) {
    log_info(fmt::format(
        "parallel.shard_outer: {} has no effect, as there is one copy of the model (dp_replicate)",
        config.parallel.shard_outer));
  }
  resume();
  start_fp8();
  folder.write_config(config);
  std::optional<RunClock> clock;
  if (is_writer()) clock.emplace(folder.file("machine.json"), state.options.compute);
  state.check_same_weights();
  {
    const parallel::ShardedParams::WholeScope whole(training_cache ? state.shards.get() : nullptr);
    prepare_features();
  }
  use_graphs(*stepper, config.device, state.options.compute.device);
  log.start(step);
  training.loader->seek(position);
  const StopSignals signals;
  is_stopping = anyone_is_told_to_stop();
  if (step == saved_step && eval_is_due() && !is_stopping) {  // a stop broke it off
    saved_step = -1;
    end_step();
  }
  while (step < length.steps && !is_stopping) {
    train_one_step();
    end_step();
  }
  if (step != saved_step) save();
  timeline.finish();
  state.checkpoints->wait();
  log.say_ranks();
  FitResult result{.run_dir = folder.path().string(),
                   .step = step,
                   .epoch = log_position().epoch,
                   .stopped = !is_over(),
                   .last_eval = last_eval};
  clock.reset();  // the report says when the run ended
  if (!result.stopped && state.has_writers_parts()) finish();
  if (result.stopped) folder.mark_stopped(step);
  world.at_operation("at the end");
  world.all().barrier("the end of the training");
  return result;
}

void Trainer::Run::finish() {
  const optim::EmaScope with_average(state.ema.get());
  const auto whole = state.whole_model(is_writer());
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
