#include "fovea/train/run/run_length.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/optim/schedules.h"
#include "fovea/train/session.h"

namespace fovea::train {

std::string length_notice(const TrainConfig& before, const TrainConfig& now,
                          int64_t steps_per_epoch, int64_t step) {
  const auto length = total_steps(now.trainer, steps_per_epoch);
  const auto length_before = total_steps(before.trainer, steps_per_epoch);
  if (length == length_before) return "";
  const auto schedule_of = [](const TrainConfig& config, int64_t steps) {
    return optim::Schedule(config.schedule, optim::base_lr(config.optim), steps);
  };
  const auto schedule = schedule_of(now, length), seen = schedule_of(before, length_before);
  bool is_same = true;
  for (int64_t i = 0; i <= step && is_same; ++i) is_same = schedule.lr(i) == seen.lr(i);
  const auto text = fmt::format("{} steps in all, {} at the start before, {} of them done", length,
                                length_before, step);
  if (is_same) return text + "; the schedule is the same";
  return fmt::format(
      "{}: the schedule differs from the one that those saw (learning rate of the next step "
      "{:.4g}, "
      "there {:.4g})",
      text, schedule.lr(step), seen.lr(step));
}

void check_not_beyond(int64_t step, int64_t num_steps) {
  if (step <= num_steps) return;
  fail<ConfigError>(
      "trainer: the run has done {} steps, and is to have {} in all; expected max_steps or "
      "max_epochs that come to no fewer, or another run.dir",
      step, num_steps);
}

}  // namespace fovea::train
