#include "fovea/train/run/run_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/optim/schedule_check.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

// The fewest batches that lead as far as `steps` of the first size.
int64_t batches_to(const data::SampleOrder& order, int64_t steps) {
  const auto is_enough = [&](int64_t batches) {
    return order.first_size_steps(batches) >= static_cast<double>(steps);
  };
  int64_t too_few = 0, enough = steps;
  while (!is_enough(enough)) {
    too_few = enough;
    enough *= 2;
  }
  while (enough - too_few > 1) {
    const int64_t middle = too_few + (enough - too_few) / 2;
    (is_enough(middle) ? enough : too_few) = middle;
  }
  return enough;
}

}  // namespace

RunLength run_length(const TrainerConfig& config, const data::SampleOrder& order) {
  RunLength length;
  if (config.max_epochs) {
    auto of_epochs = config;
    of_epochs.max_steps.reset();
    length.first_size_steps = total_steps(of_epochs, order.batches_per_epoch());
    length.steps = batches_to(order, length.first_size_steps);
    if (!config.max_steps || length.steps <= *config.max_steps) return length;
  }
  length.steps = *config.max_steps;
  const double steps = order.first_size_steps(length.steps);
  length.first_size_steps = std::max<int64_t>(1, std::llround(steps));
  return length;
}

RunLength changed_length(const TrainConfig& config, const data::SampleOrder& order,
                         const data::BatchSizeChange& change) {
  auto changed = order;
  changed.append(change);
  const auto length = run_length(config.trainer, changed);
  const auto before = run_length(config.trainer, order).first_size_steps;
  if (length.first_size_steps != before && optim::hangs_on_run_steps(config.schedule)) {
    fail<ConfigError>(
        "trainer.max_steps: found {}, which ends the run, and a schedule that lasts as long; with "
        "batches of {} samples from position {} on the learning rate of the steps before would "
        "have been another: set max_epochs in its place, or schedule.total_steps",
        *config.trainer.max_steps, change.size, change.position);
  }
  return length;
}

std::string length_notice(const TrainConfig& before, const TrainConfig& now,
                          const data::SampleOrder& order, int64_t step) {
  const auto length = run_length(now.trainer, order);
  const auto length_before = run_length(before.trainer, order);
  if (length.steps == length_before.steps) return "";
  const auto schedule_of = [](const TrainConfig& config, const RunLength& of_run) {
    return optim::Schedule(config.schedule, optim::base_lr(config.optim), of_run.first_size_steps);
  };
  const auto schedule = schedule_of(now, length), seen = schedule_of(before, length_before);
  bool is_same = true;
  for (int64_t i = 0; i <= step && is_same; ++i) {
    const double at = order.first_size_steps(i);
    is_same = schedule.lr(at) == seen.lr(at);
  }
  const double next = order.first_size_steps(step);
  const auto text = fmt::format("{} steps in all, {} at the start before, {} of them done",
                                length.steps, length_before.steps, step);
  if (is_same) return text + "; the schedule is the same";
  return fmt::format(
      "{}: the schedule differs from the one that those saw (learning rate of the next step "
      "{:.4g}, "
      "there {:.4g})",
      text, schedule.lr(next), seen.lr(next));
}

void check_not_beyond(int64_t step, int64_t num_steps) {
  if (step <= num_steps) return;
  fail<ConfigError>(
      "trainer: the run has done {} steps, and is to have {} in all; expected max_steps or "
      "max_epochs that come to no fewer, or another run.dir",
      step, num_steps);
}

}  // namespace fovea::train
