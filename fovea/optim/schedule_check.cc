#include "fovea/optim/schedule_check.h"

#include <fmt/format.h>

namespace fovea::optim {

bool hangs_on_run_steps(const ScheduleConfig& config) {
  return config.visit_value([](const auto& chosen) {
    if constexpr (requires { chosen.total_steps; }) return !chosen.total_steps;
    return false;
  });
}

void check_run_steps(const ScheduleConfig& config, int64_t run_steps, ConfigIssues& issues) {
  config.visit_value([&](const auto& chosen) {
    const Warmup& warmup = chosen;
    if (warmup.warmup_steps > run_steps) {
      issues.add("warmup_steps",
                 fmt::format("found {}, but the run has {} optimizer steps; shorten the warm-up or "
                             "lengthen the run",
                             warmup.warmup_steps, run_steps));
    }
    if constexpr (requires { chosen.total_steps; }) {
      const bool is_named = chosen.total_steps.has_value();
      if (decay_steps(chosen, run_steps) < 1 && (is_named || warmup.warmup_steps == run_steps)) {
        issues.add("total_steps", {"warmup_steps", "total_includes_warmup"},
                   fmt::format("found {} with a warm-up of {} in it (total_includes_warmup); "
                               "expected more steps than the warm-up has",
                               chosen.total_steps.value_or(run_steps), warmup.warmup_steps));
      }
    }
  });
}

}  // namespace fovea::optim
