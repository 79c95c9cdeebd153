#include "fovea/optim/schedules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numbers>

#include "fovea/core/error.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::optim {
namespace {

template <class Config>
bool read_if(const nlohmann::json& values, ScheduleConfig& config) {
  if (values.at("name") != Config::kName) return false;
  config.value = support::config_from_json<Config>(values);
  return true;
}

ScheduleConfig schedule_from_json(const nlohmann::json& values) {
  ScheduleConfig config;
  const bool known = read_if<CosineScheduleConfig>(values, config) ||
                     read_if<LinearScheduleConfig>(values, config) ||
                     read_if<PolynomialScheduleConfig>(values, config) ||
                     read_if<StepScheduleConfig>(values, config) ||
                     read_if<MultiStepScheduleConfig>(values, config);
  EXPECT_TRUE(known) << values;
  return config;
}

// float64 rounding of a formula written another way, relative to the peak.
constexpr double kRounding = 1e-14;

TEST(SchedulesTest, EveryStepIsTimmsOrTorchs) {
  const auto document =
      nlohmann::json::parse(std::ifstream(support::golden_path("schedules.json")));
  const double lr = document.at("lr");
  int64_t compared = 0;
  for (const auto& expected : document.at("cases")) {
    const Schedule schedule(schedule_from_json(expected.at("config")), lr,
                            document.at("run_steps"));
    const auto lrs = expected.at("lrs").get<std::vector<double>>();
    for (size_t step = 0; step < lrs.size(); ++step, ++compared) {
      ASSERT_NEAR(schedule.lr(static_cast<int64_t>(step)), lrs[step], kRounding)
          << expected.at("config") << " of " << expected.at("source") << ", step " << step;
    }
  }
  std::cout << "  " << document.at("cases").size() << " schedules, " << compared
            << " learning rates compared\n";
}

TEST(SchedulesTest, TotalMayIncludeTheWarmup) {
  CosineScheduleConfig shorter;
  shorter.warmup_steps = 5;
  shorter.warmup_prefix = true;
  shorter.total_steps = 20;
  auto whole = shorter;
  whole.total_includes_warmup = true;
  whole.total_steps = 25;
  auto of_run = whole;
  of_run.total_steps.reset();
  const Schedule expected({shorter}, 0.1, 30), actual({whole}, 0.1, 30), by_run({of_run}, 0.1, 25);
  for (int64_t step = 0; step < 30; ++step) {
    EXPECT_EQ(actual.lr(step), expected.lr(step)) << step;
    EXPECT_EQ(by_run.lr(step), expected.lr(step)) << step;
  }
  EXPECT_EQ(actual.lr(5), 0.1);  // the peak is reached
  EXPECT_EQ(actual.lr(25), 0);
  whole.total_steps = 5;
  EXPECT_THROW(Schedule({whole}, 0.1, 30), ConfigError);
  ConfigIssues issues;
  whole.warmup_prefix = false;
  whole.validate(issues);
  EXPECT_EQ(issues.all().size(), 1u);
}

TEST(SchedulesTest, ConstantStaysAfterItsWarmup) {
  ConstantScheduleConfig config;
  config.warmup_steps = 4;
  config.warmup_lr = 0.2;
  const Schedule schedule({config}, 1.0, 10);
  const std::vector<double> expected = {0.2, 0.4, 0.6, 0.8, 1, 1};
  for (int64_t step = 0; step < 6; ++step) EXPECT_NEAR(schedule.lr(step), expected[step], 1e-15);
  EXPECT_EQ(schedule.lr(1000000), 1);
}

// Where batches change their size, a step lies between two of the first size.
TEST(SchedulesTest, GoOnBetweenSteps) {
  ConstantScheduleConfig constant;
  constant.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(Schedule({constant}, 1.0, 10).lr(1.5), 0.375);
  EXPECT_EQ(Schedule({LinearScheduleConfig{}}, 1.0, 10).lr(2.5), 0.75);
  CosineScheduleConfig cosine;
  cosine.cycle_limit = 2;
  cosine.total_steps = 10;
  EXPECT_DOUBLE_EQ(Schedule({cosine}, 1.0, 20).lr(2.5), 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(Schedule({cosine}, 1.0, 20).lr(12.5), 0.5 * (1 + std::sqrt(0.5)));
  StepScheduleConfig steps;
  steps.decay_steps = 3;
  MultiStepScheduleConfig milestones;
  milestones.milestones = {3, 6};
  for (const ScheduleConfig& config : {ScheduleConfig{steps}, ScheduleConfig{milestones}}) {
    const Schedule schedule(config, 1.0, 10);
    EXPECT_EQ(schedule.lr(2.9), 1);
    EXPECT_EQ(schedule.lr(3), 0.1);
    EXPECT_EQ(schedule.lr(5.9), 0.1);
  }
}

TEST(SchedulesTest, OwnTotalStepsComeBeforeTheRuns) {
  LinearScheduleConfig config;
  config.total_steps = 4;
  EXPECT_EQ(Schedule({config}, 1.0, 100).lr(2), 0.5);
  EXPECT_EQ(Schedule({config}, 1.0, 100).lr(4), 0);
}

// optax counts the warm-up as part of decay_steps and lets the cosine begin at its end, from the
// peak: peak * ((1 - alpha) / 2 * (1 + cos(pi (t - w) / (decay_steps - w))) + alpha). Here that is
// total_steps = decay_steps - w with warmup_prefix.
TEST(SchedulesTest, OptaxsWarmupCosineIsACosineBehindItsWarmup) {
  constexpr int64_t kWarmup = 10000, kDecaySteps = 85000;
  constexpr double kPeak = 3e-3, kEnd = 1e-5;
  CosineScheduleConfig config;
  config.warmup_steps = kWarmup;
  config.warmup_prefix = true;
  config.total_steps = kDecaySteps - kWarmup;
  config.min_lr = kEnd;
  const Schedule schedule({config}, kPeak, 95000);
  for (int64_t step = 0; step < 95000; step += 500) {
    double expected = kPeak * static_cast<double>(step) / kWarmup;
    if (step >= kWarmup) {
      const double passed = static_cast<double>(std::min(step, kDecaySteps) - kWarmup) /
                            static_cast<double>(kDecaySteps - kWarmup);
      const double alpha = kEnd / kPeak;
      const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * passed));
      expected = kPeak * ((1 - alpha) * cosine + alpha);
    }
    EXPECT_NEAR(schedule.lr(step), expected, kRounding) << step;
  }
}

TEST(SchedulesTest, RefusesAWarmupLongerThanTheRun) {
  CosineScheduleConfig config;
  config.warmup_steps = 11;
  EXPECT_THROW(Schedule({config}, 1.0, 10), ConfigError);
  EXPECT_THROW(Schedule({config}, 1.0, 0), Error);
  config.warmup_steps = 10;
  EXPECT_THROW(Schedule({config}, 1.0, 10).lr(-1), Error);
}

TEST(SchedulesTest, MilestonesMustRise) {
  MultiStepScheduleConfig config;
  config.milestones = {5, 3};
  ConfigIssues issues;
  config.validate(issues);
  EXPECT_EQ(issues.all().size(), 1u);
}

}  // namespace
}  // namespace fovea::optim
