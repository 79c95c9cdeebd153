#include "fovea/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/checkpoint/store.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/machine.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/evaluator.h"
#include "fovea/train/inference.h"
#include "fovea/train/metrics_log.h"
#include "fovea/train/run_folder.h"
#include "fovea/train/session.h"
#include "fovea/train/stop_signals.h"

namespace fovea::train {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Sums since the last line of metrics.jsonl. Saved with a checkpoint, so that a resumed run writes the same lines.
struct LogWindow {
  double loss_sum = 0, weight = 0, grad_norm_sum = 0;
  int64_t steps = 0;
  std::map<std::string, double> sums;
  double seconds = 0, wait_seconds = 0, images = 0;  // of this process only

  void add(const StepOutcome& outcome) {
    loss_sum += outcome.loss * outcome.weight;
    weight += outcome.weight;
    grad_norm_sum += outcome.grad_norm;
    steps += 1;
    for (const auto& [name, sum] : outcome.sums) sums[name] += sum;
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LogWindow, loss_sum, weight, grad_norm_sum, steps, sums)

// Whether `value` of `metric` is better than `best`: a loss is better when smaller, the rest when larger.
bool improves(const std::string& metric, double value, double best) {
  return metric == "loss" ? value < best : value > best;
}

}  // namespace

struct Trainer::Run {
  Run(const TrainConfig& run_config, ProgressLine::Mode mode);

  void resume();
  void train_one_step();
  void write_log_line();
  void show_progress();
  void evaluate_now();
  void save(bool is_best);
  void finish();
  json scalars() const;
  double epoch() const;

  TrainConfig config;
  RunFolder folder;
  DataSource training, validation;
  StepOptions options;
  models::ModelPtr model;
  std::unique_ptr<Task> task;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  checkpoint::Store store;
  MetricsLog log;
  ProgressLine progress;

  int64_t num_steps = 0, steps_per_epoch = 0, eval_every_steps = 0;
  int64_t step = 0, position = 0, saved_step = -1, evaluated_step = -1;
  LogWindow window;
  std::map<std::string, double> last_eval;
  std::optional<double> best;
  Clock::time_point started = Clock::now();
  int64_t first_step = 0;
};

Trainer::Run::Run(const TrainConfig& run_config, ProgressLine::Mode mode)
    : config(run_config),
      folder(config),
      training(open_training_data(config)),
      validation(open_validation_data(config)),
      options(step_options(config)),
      model(make_model(config, options.compute)),
      task(make_task(config.task, num_classes_of(config.model))),
      optimizer(make_optimizer(config, *model)),
      store(folder.file("checkpoints"), {.keep = config.checkpoint.keep, .async = config.checkpoint.async}),
      log(folder, config.log),
      progress(mode) {
  if (config.trainer.ema.enabled) {
    ema = std::make_unique<optim::Ema>(optimizer->flat_param(), config.trainer.ema.decay, config.trainer.ema.warmup);
  }
  steps_per_epoch = training.loader->batches_per_epoch();
  num_steps = total_steps(config.trainer, steps_per_epoch);
  eval_every_steps = std::llround(config.trainer.eval_every_epochs * static_cast<double>(steps_per_epoch));
}

double Trainer::Run::epoch() const {
  return static_cast<double>(position) / static_cast<double>(training.loader->samples_per_epoch());
}

json Trainer::Run::scalars() const {
  return {{"step", step},       {"position", position},   {"seed", config.run.seed},
          {"window", window},   {"last_eval", last_eval}, {"best", best ? json(*best) : json()},
          {"evaluated_step", evaluated_step}};
}

void Trainer::Run::resume() {
  const auto state = store.load_latest();
  if (!state) return;
  const auto& saved = state->scalars;
  checkpoint::restore(*model, state->model);
  optimizer->load_state(state->optimizer, saved.at("step"));
  if (ema) ema->load_state(state->ema);
  step = saved.at("step");
  position = saved.at("position");
  window = saved.at("window");
  last_eval = saved.at("last_eval").get<std::map<std::string, double>>();
  evaluated_step = saved.at("evaluated_step");
  if (!saved.at("best").is_null()) best = saved.at("best").get<double>();
  saved_step = step;
  log.cut_after(step);
  log_info("{}: going on from step {} of {}", folder.path().string(), step, num_steps);
}

void Trainer::Run::train_one_step() {
  const auto start = Clock::now();
  auto batch = training.loader->next();
  const auto outcome = compute_gradients(*model, *task, *optimizer, batch, step, options);
  optimizer->step(optim::learning_rate(config.schedule, config.optim, step, num_steps));
  if (ema) ema->update(optimizer->flat_param());
  step += 1;
  position += batch.size();
  window.add(outcome);
  window.images += static_cast<double>(batch.size());
  window.seconds += seconds_since(start);
  window.wait_seconds += training.loader->take_wait_seconds();
  training.loader->recycle(std::move(batch));
}

void Trainer::Run::write_log_line() {
  MetricsLine line{.step = step, .epoch = epoch(), .split = "train"};
  line.values["loss"] = window.loss_sum / window.weight;
  line.values["lr"] = optim::learning_rate(config.schedule, config.optim, step - 1, num_steps);
  line.values["grad_norm"] = window.grad_norm_sum / static_cast<double>(window.steps);
  line.values["images_per_second"] = window.images / window.seconds;
  line.values["data_wait"] = window.wait_seconds / window.seconds;
  line.values["memory_bytes"] = static_cast<double>(peak_memory_bytes());
  if (const auto correct = window.sums.find("correct"); correct != window.sums.end()) {
    line.values["top1"] = 100 * correct->second / window.weight;
  }
  log.write(line);
  window = {};
}

void Trainer::Run::show_progress() {
  const auto correct = window.sums.find("correct");
  const double steps_here = static_cast<double>(step - first_step);
  progress.update(format_progress({
      .epoch = std::min<int64_t>(static_cast<int64_t>((step - 1) / steps_per_epoch) + 1, (num_steps + steps_per_epoch - 1) / steps_per_epoch),
      .num_epochs = (num_steps + steps_per_epoch - 1) / steps_per_epoch,
      .step = step,
      .num_steps = num_steps,
      .loss = window.loss_sum / window.weight,
      .accuracy = correct == window.sums.end() ? -1 : 100 * correct->second / window.weight,
      .images_per_second = window.images / window.seconds,
      .data_wait = window.wait_seconds / window.seconds,
      .memory_bytes = peak_memory_bytes(),
      .seconds_left = seconds_since(started) / steps_here * static_cast<double>(num_steps - step),
  }));
}

void Trainer::Run::evaluate_now() {
  if (!validation.loader) return;
  progress.print("");
}
