#include "fovea/train/training_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/stop_signals.h"
#include "fovea/core/trace.h"
#include "fovea/track/run_facts.h"
#include "fovea/train/metrics/metric_names.h"
#include "fovea/train/ranks.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/report/report.h"

namespace fovea::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// By the names that they have in metrics.jsonl.
std::map<std::string, double> step_values(const StepOutcome& outcome, const StepCost& cost,
                                          const LogPosition& led_to) {
  std::map<std::string, double> values = {
      {"loss", outcome.loss},
      {"grad_norm", outcome.grad_norm},
      {"lr", led_to.lr},
      {"images_per_second", static_cast<double>(cost.images) / std::max(cost.seconds, 1e-9)}};
  for (const auto& [name, sum] : outcome.sums) values[name] = sum / outcome.weight;
  return values;
}

}  // namespace

LogPosition TrainingRun::log_position() const {
  const int64_t before = std::max<int64_t>(step - 1, 0);
  const bool may_change = !config.data.batch_schedule.empty() || order().has_changes() ||
                          hooks.are_set() || adaptive.has_value();
  return {.step = step,
          .num_steps = length.steps,
          .epoch = order().epochs_before(position),
          .lr = step > 0 ? lr(before) : 0,
          .first_size_step = order().first_size_steps(before),
          .first_size_steps = length.first_size_steps,
          .steps_per_epoch = order().batches_per_epoch(),
          .samples_left = std::max<int64_t>(order().position_of(length.steps) - position, 0),
          .batch_size = may_change ? order().batch_size_at(order().position_of(before)) : 0,
          .generation = hooks.generation};
}

bool TrainingRun::has_reached_multiple_of(int64_t steps) const {
  const auto multiples = [&](int64_t batches) {
    return std::floor(order().first_size_steps(batches) / static_cast<double>(steps));
  };
  return step > 0 && multiples(step) > multiples(step - 1);
}

checkpoint::State TrainingRun::checkpoint(HaveAlike alike) const {
  auto saved = state().save(alike);
  saved.scalars.update({{"step", step},
                        {"position", position},
                        {"lr", lr(step)},  // of the next step
                        {"seed", config.run.seed},
                        {"evaluated_step", evaluated_step},
                        {"last_eval", last_eval},
                        {"log", log->state()}});
  if (best) saved.scalars["best"] = *best;
  saved.scalars.update(batch_scalars());
  return saved;
}

void TrainingRun::train_one_step() {
  const auto start = Clock::now();
  world().at_step(step);
  world().take_wait_seconds();  // what an evaluation took is no step's
  timeline->before_step();
  auto read = [&] {
    const trace::Scope data("data");
    return training.loader->next();
  }();
  batch = &read;
  const auto notes = place.stepper->take(read, step, lr(step));
  if (notes.bad_samples > 0) share_bad_samples(*training.loader, state().data_ranks());
  is_stopping = notes.stop_requests > 0;
  is_changing = notes.changes > 0;
  step += 1;
  position += read.global_size;
  is_best = false;
  unlogged.push_back({{.images = read.global_size,
                       .seconds = seconds_since(start),
                       .wait_seconds = training.loader->take_wait_seconds(),
                       .comm_seconds = world().take_wait_seconds()},
                      log_position()});
  const auto& cost = unlogged.back().first;
  if (hooks.timed) hooks.timed(read.size(), cost.seconds, cost.comm_seconds);
  const bool is_look_due = adaptive && adaptive->is_look_due(step);
  if (!place.stepper->is_late() || is_look_due ||
      log->is_line_due(place.stepper->num_taken(), log_position())) {
    log_steps();
  }
  training.loader->recycle(std::move(read));
  timeline->after_step();
}

// Steps whose numbers are with the device take as long as the wait for them says, each its share.
void TrainingRun::log_steps() {
  const auto start = Clock::now();
  const auto outcomes = place.stepper->outcomes();
  const double share =
      seconds_since(start) / static_cast<double>(std::max<size_t>(1, outcomes.size()));
  for (size_t i = 0; i < outcomes.size(); ++i) {
    auto& [cost, led_to] = unlogged.at(i);
    cost.seconds += share;
    log_step(outcomes[i], cost, led_to);
  }
  unlogged.clear();
}

void TrainingRun::log_step(const StepOutcome& outcome, StepCost cost, LogPosition led_to) {
  // Before what may break off as ranks are lost: the step counts all the same.
  if (adaptive) follow_gradients(outcome, led_to);
  if (outcome.is_skipped) {
    log->say(fmt::format(
        "step {}: left out, as loss {} and gradient norm {} are not both finite; the loss scale "
        "falls to {}",
        led_to.step - 1, outcome.loss, std::abs(outcome.grad_norm), outcome.loss_scale));
  }
  log->add(outcome, cost, led_to);
  if (observer) tell_observer(led_to, "train", step_values(outcome, cost, led_to));
}

void TrainingRun::tell_observer(const LogPosition& led_to, const std::string& split,
                                const std::map<std::string, double>& values) {
  const MetricsRecord record{
      .step = led_to.step, .epoch = led_to.epoch, .split = split, .values = values};
  if (!observer(record)) observer_said_stop = true;
}

void TrainingRun::count_broken_step(const std::optional<StepOutcome>& finished) {
  log->compare(nullptr);  // the other ranks are lost
  auto outcomes = place.stepper->outcomes();
  if (finished) outcomes = {*finished};
  FOVEA_CHECK(outcomes.size() == 1, "step {} has {} outcomes; expected the one that it came to",
              step, outcomes.size());
  const auto rows = order().batch_at(position).rows;
  step += 1;
  position += rows;
  is_best = false;
  log_step(outcomes.front(), {.images = rows}, log_position());
}

bool TrainingRun::eval_is_due() const {
  if (!validation.loader || evaluated_step == step) return false;
  return step == length.steps ||
         (eval_every_steps > 0 && has_reached_multiple_of(eval_every_steps));
}

void TrainingRun::evaluate_now() {
  log_steps();
  const optim::EmaScope with_average(state().ema.get());
  const auto evaluation =
      evaluate(*state().model, *state().task, *validation.loader, state().options.compute,
               {.on_progress =
                    [&](int64_t done, int64_t total) {
                      log->progress().update(fmt::format("evaluating {}/{}", done, total));
                      if (hooks.alive) hooks.alive();
                    },
                .should_stop = [&] { return anyone_is_told_to_stop(); },
                .features = validation_cache.get(),
                .ranks = &state().data_ranks(),
                .shards = state().shards.get()});
  if (!evaluation) {  // the next start evaluates
    log->say(fmt::format("step {}: told to stop; the evaluation is left to the next start", step));
    is_stopping = true;
    return;
  }
  share_bad_samples(*validation.loader, state().data_ranks());
  std::array left_out = {static_cast<double>(validation.loader->take_skipped_rows())};
  parallel::sum_over_ranks(state().data_ranks(), left_out, "samples left out");
  last_eval = evaluation->metrics();
  evaluated_step = step;
  const double value = last_eval.at(checkpoint_metrics.best);
  is_best = !best || improves(checkpoint_metrics.best, value, *best);
  if (is_best) best = value;
  log->add_evaluation(last_eval, std::llround(left_out[0]), log_position());
  std::string text;
  for (const auto& [name, metric] : last_eval) text += fmt::format("  {} {:.4g}", name, metric);
  log->say(
      fmt::format("step {}: evaluation of {} samples:{}", step, evaluation->num_samples(), text));
  if (observer) tell_observer(log_position(), "val", last_eval);
  if (step == length.steps && is_writer()) write_evaluation(*evaluation);
  is_stopping = anyone_is_told_to_stop();
}

bool TrainingRun::anyone_knows_of_change() {
  if (!hooks.change_is_due) return false;
  const double knows = hooks.change_is_due(step) ? 1 : 0;
  return parallel::max_over_ranks(world().all(), knows, "changes of the members") > 0;
}

bool TrainingRun::anyone_is_told_to_stop() {
  if (hooks.are_set()) return is_stopping;  // a signal tells one member to leave
  const double is_told = StopSignals::received() != 0 || observer_said_stop ? 1 : 0;
  return parallel::max_over_ranks(world().all(), is_told, "signals to stop") > 0;
}

void TrainingRun::write_evaluation(const Evaluation& evaluation) const {
  EvaluationFile file;
  file.metrics = evaluation.metrics();
  file.num_samples = evaluation.num_samples();
  evaluation.describe(file, *validation.dataset);
  file.step = step;
  file.epoch = log_position().epoch;
  file.num_left_out = log->num_left_out();
  write_evaluation_file(folder.file("evaluation.json"), file);
}

void TrainingRun::save() {
  log_steps();  // weights after a step that was not finite are not saved
  const auto& name = checkpoint_metrics.label;
  const bool has_label = evaluated_step == step && !name.empty();
  if (state().has_writers_parts()) {
    state().checkpoints->save(step, checkpoint(), is_best,
                              has_label ? fmt::format("{}_{:.3f}", name, last_eval.at(name)) : "");
  }
  saved_step = step;
}

// What follows a step, where it is due.
void TrainingRun::end_step() {
  if (eval_is_due()) evaluate_now();
  if (is_best || has_reached_multiple_of(config.checkpoint.every_steps)) save();
  state().checkpoints->check();
  ended_step = step;
  if (observer_said_stop && world().size() == 1) is_stopping = true;  // nobody else to agree with
  if (hooks.at_step) hooks.at_step();
}

void TrainingRun::begin() {
  if (config.parallel.shard_outer != "none" && !state().sharing().has_outer_parts()) {
    log_info(fmt::format(
        "parallel.shard_outer: {} has no effect, as there is one copy of the model (dp_replicate)",
        config.parallel.shard_outer));
  }
  start_fp8();
  if (is_writer() && !hooks.are_set()) folder.write_config(config);
  if (is_writer() && !clock) clock.emplace(folder.file("machine.json"), state().options.compute);
  state().check_same_weights();
  if (adaptive) write_batch_sizes();
  {
    const parallel::ShardedParams::WholeScope whole(training_cache ? state().shards.get()
                                                                   : nullptr);
    prepare_features();
  }
  if (!hooks.are_set()) use_graphs(*place.stepper, config.device, state().options.compute.device);
  log->describe(facts());
  log->start(step);
  training.loader->seek(position);
}

track::Facts TrainingRun::facts() const {
  const auto& launch = world().launch();
  const auto hosts = (launch.world_size + launch.local_size - 1) / launch.local_size;
  auto facts = track::process_facts(folder.path());
  facts["fovea.processes"] = fmt::format("{}", launch.world_size);
  facts["fovea.hosts"] = fmt::format("{}", hosts);
  return facts;
}

bool TrainingRun::go() {
  is_stopping = anyone_is_told_to_stop();
  is_changing = anyone_knows_of_change();
  const bool was_broken_off = ended_step < step || (step == saved_step && eval_is_due());
  if (was_broken_off && !is_stopping && !is_changing) {
    if (eval_is_due()) saved_step = -1;
    end_step();
  }
  while (step < length.steps && !is_stopping && !is_changing) {
    train_one_step();
    end_step();
  }
  return !is_changing || is_stopping;
}

FitResult TrainingRun::fit() {
  resume();
  begin();
  const StopSignals signals;
  try {
    go();
    return conclude();
  } catch (...) {
    log->end_following(track::RunEnd::kFailed);
    throw;
  }
}

FitResult TrainingRun::conclude() {
  if (step != saved_step) save();
  timeline->finish();
  state().checkpoints->wait();
  log->say_ranks();
  FitResult result{.run_dir = folder.path().string(),
                   .step = step,
                   .epoch = log_position().epoch,
                   .stopped = !is_over(),
                   .last_eval = last_eval};
  clock.reset();  // the report says when the run ended
  if (!result.stopped && state().has_writers_parts()) finish();
  if (result.stopped && is_writer()) folder.mark_stopped(step);
  world().at_operation("at the end");
  world().all().barrier("the end of the training");
  log->end_following(result.stopped ? track::RunEnd::kStopped : track::RunEnd::kFinished);
  return result;
}

void TrainingRun::finish() {
  const optim::EmaScope with_average(state().ema.get());
  const auto whole = state().whole_model(is_writer());
  if (!is_writer()) return;
  save_inference_weights(folder.file("weights.safetensors").string(), *whole, config,
                         training.dataset->class_names());
  write_report({folder.path()});
}

}  // namespace fovea::train
