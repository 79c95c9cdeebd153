#include "fovea/optim/schedules.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fovea/core/error.h"
#include "fovea/optim/schedule_check.h"

namespace fovea::optim {
namespace {

// Where step t lies: in which cycle, and how far in it.
struct CyclePosition {
  int64_t cycle = 0;
  double time = 0;    // steps since the cycle began
  double length = 1;  // steps
};

CyclePosition find_cycle(double cycle_mul, int64_t first_length, double step) {
  const auto first = static_cast<double>(first_length);
  if (cycle_mul == 1) {
    const double cycle = std::floor(step / first);
    return {static_cast<int64_t>(cycle), step - cycle * first, first};
  }
  // The lengths before cycle i add up to first * (mul^i - 1) / (mul - 1); solved for i.
  const double exact = std::log(1 - step / first * (1 - cycle_mul)) / std::log(cycle_mul);
  const double i = std::floor(exact), power = std::pow(cycle_mul, i);
  return {static_cast<int64_t>(i), step - (1 - power) / (1 - cycle_mul) * first, power * first};
}

// min_lr + (peak - min_lr) * shape(share of the cycle that has passed, to the power k_decay).
template <class Config, class Shape>
double cycled(const Config& config, double base_lr, int64_t run_steps, double t, Shape shape) {
  const auto at = find_cycle(config.cycle_mul, decay_steps(config, run_steps), t);
  if (at.cycle >= config.cycle_limit) return config.min_lr;
  const double peak = base_lr * std::pow(config.cycle_decay, static_cast<double>(at.cycle));
  const double passed = std::pow(at.time, config.k_decay) / std::pow(at.length, config.k_decay);
  return config.min_lr + (peak - config.min_lr) * shape(std::clamp(passed, 0.0, 1.0));
}

// After the warm-up; t counts from where the schedule's own time begins.
struct LrAt {
  double base_lr;
  int64_t run_steps;
  double t;

  double operator()(const ConstantScheduleConfig&) const { return base_lr; }
  double operator()(const CosineScheduleConfig& config) const {
    return cycled(config, base_lr, run_steps, t,
                  [](double passed) { return 0.5 * (1 + std::cos(std::numbers::pi * passed)); });
  }
  double operator()(const LinearScheduleConfig& config) const {
    const auto length = static_cast<double>(decay_steps(config, run_steps));
    const double left = std::max(0.0, 1 - t / length);
    return config.min_lr + (base_lr - config.min_lr) * left;
  }
  double operator()(const PolynomialScheduleConfig& config) const {
    return cycled(config, base_lr, run_steps, t,
                  [&](double passed) { return std::pow(1 - passed, config.power); });
  }
  double operator()(const StepScheduleConfig& config) const {
    const double drops = std::floor(t / static_cast<double>(config.decay_steps));
    return base_lr * std::pow(config.decay_rate, drops);
  }
  double operator()(const MultiStepScheduleConfig& config) const {
    const auto& milestones = config.milestones;
    const auto is_before = [](double at, int64_t step) { return at < static_cast<double>(step); };
    const auto drops = std::upper_bound(milestones.begin(), milestones.end(), t, is_before);
    return base_lr * std::pow(config.decay_rate, static_cast<double>(drops - milestones.begin()));
  }
};

}  // namespace

void Warmup::validate(ConfigIssues& issues) const {
  if (!total_includes_warmup || warmup_prefix) return;
  issues.add("warmup_prefix", {"total_includes_warmup"},
             "found false beside total_includes_warmup: true, where the length counts the warm-up "
             "in any case; set it to true, or leave total_includes_warmup out");
}

void MultiStepScheduleConfig::validate(ConfigIssues& issues) const {
  Warmup::validate(issues);
  if (!std::is_sorted(milestones.begin(), milestones.end())) {
    issues.add("milestones", "not in rising order; expected each step to be after the one before");
  }
}

Schedule::Schedule(const ScheduleConfig& config, double base_lr, int64_t run_steps)
    : config_(config), base_lr_(base_lr), run_steps_(run_steps) {
  FOVEA_CHECK(run_steps > 0, "schedule: {} steps in the run; expected 1 or more", run_steps);
  ConfigIssues issues;
  check_run_steps(config_, run_steps, issues);
  if (issues.all().empty()) return;
  const auto& issue = issues.all().front();
  fail<ConfigError>("schedule.{}: {}", issue.key, issue.message);
}

double Schedule::lr(double step) const {
  FOVEA_CHECK(step >= 0, "schedule: step {}; expected 0 or more", step);
  return config_.visit_value([&](const auto& chosen) {
    const Warmup& warmup = chosen;
    const auto warmup_steps = static_cast<double>(warmup.warmup_steps);
    if (step < warmup_steps) {
      const double rise = (base_lr_ - warmup.warmup_lr) / warmup_steps;
      return warmup.warmup_lr + step * rise;
    }
    const double start = warmup.warmup_prefix ? warmup_steps : 0;
    return LrAt{base_lr_, run_steps_, step - start}(chosen);
  });
}

}  // namespace fovea::optim

namespace fovea {

template struct detail::OneOfValue<decltype(optim::ScheduleConfig::value)>;
template struct detail::BoundOneOf<optim::ScheduleConfig>;

}  // namespace fovea
