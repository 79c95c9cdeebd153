// Steps whose clipping and average are part of the optimizer's pass, and whose numbers come late.
#include "fovea/train/step/stepper.h"

#include <gtest/gtest.h>

#include <limits>

#include "fovea/core/error.h"
#include "fovea/train/session.h"
#include "tests/support/close.h"
#include "tests/train/step_gradients.h"
#include "tests/train/step_pieces.h"

namespace fovea::train {
namespace {

constexpr double kStepperLr = 1e-2;

struct StepperRun : testing::StepPieces {
  optim::Ema ema{*optimizer, {.decay = 0.8}};

  Stepper stepper(const StepOptions& options, Numbers numbers) {
    return {
        {.model = *model, .task = *task, .optimizer = *optimizer, .options = options, .ema = &ema},
        numbers};
  }

  // The same from public pieces.
  StepOutcome take_by_hand(data::Batch& batch, int64_t step, const StepOptions& options) {
    const auto outcome =
        testing::gradients_of_step(*model, *task, *optimizer, batch, step, options);
    optimizer->step(kStepperLr);
    ema.update(step);
    return outcome;
  }

  void expect_same(StepperRun& other, const std::string& when) {
    support::expect_same_bits(optimizer->flat_param(), other.optimizer->flat_param(),
                              "weights " + when);
    for (const auto& [name, average] : ema.state()) {
      support::expect_same_bits(average, other.ema.state().at(name), name + " averaged " + when);
    }
  }
};

void expect_same_outcome(const StepOutcome& actual, const StepOutcome& expected) {
  EXPECT_EQ(actual.loss, expected.loss);
  EXPECT_EQ(actual.weight, expected.weight);
  EXPECT_EQ(actual.grad_norm, expected.grad_norm);
  EXPECT_EQ(actual.sums, expected.sums);
  EXPECT_EQ(actual.is_skipped, expected.is_skipped);
}

struct StepperCase {
  std::string name;
  StepOptions options;
  bool is_late;  // where late numbers are asked for
};

class StepperTest : public ::testing::TestWithParam<StepperCase> {};

TEST_P(StepperTest, IsGradientsUpdateAndAverageBitForBit) {
  for (const auto numbers : {Numbers::kAtOnce, Numbers::kLate}) {
    StepperRun by_stepper, by_hand;
    const auto& options = GetParam().options;
    auto stepper = by_stepper.stepper(options, numbers);
    EXPECT_EQ(stepper.is_late(), numbers == Numbers::kLate && GetParam().is_late);
    std::vector<StepOutcome> expected;
    for (int64_t step = 0; step < 6; ++step) {  // the fifth batch is smaller
      auto batch = by_hand.source.loader->next();
      stepper.take(batch, step, kStepperLr);
      expected.push_back(by_hand.take_by_hand(batch, step, options));
      by_stepper.expect_same(by_hand, "after step " + std::to_string(step));
    }
    EXPECT_EQ(stepper.num_taken(), 6);
    const auto outcomes = stepper.outcomes();
    ASSERT_EQ(outcomes.size(), expected.size());
    for (size_t i = 0; i < outcomes.size(); ++i) expect_same_outcome(outcomes[i], expected[i]);
    EXPECT_TRUE(stepper.outcomes().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Options, StepperTest,
    ::testing::Values(
        StepperCase{"NoClipping", {}, true},
        StepperCase{"ClippedByNorm", {.max_grad_norm = 0.5}, true},
        StepperCase{"MicroBatches", {.micro_batch_size = 7, .max_grad_norm = 0.5}, true},
        StepperCase{"BFloat16",
                    {.max_grad_norm = 0.5, .compute = {.dtype = c10::ScalarType::BFloat16}},
                    true},
        StepperCase{"ClippedByValue", {.max_grad_norm = 0.5, .max_grad_value = 0.1}, false},
        StepperCase{"ClippedAdaptively", {.max_grad_ratio = 0.05}, false}),
    [](const auto& info) { return info.param.name; });

TEST(StepperScalerTest, ScalesAreAtOnceAndChangeNoBitInFloat32) {
  StepperRun scaled, plain;
  optim::GradScaler scaler({});
  const StepOptions with_scaler{.max_grad_norm = 0.5, .scaler = &scaler},
      without{.max_grad_norm = 0.5};
  auto stepper = scaled.stepper(with_scaler, Numbers::kLate);
  EXPECT_FALSE(stepper.is_late());
  for (int64_t step = 0; step < 3; ++step) {
    auto batch = plain.source.loader->next();
    stepper.take(batch, step, kStepperLr);
    plain.take_by_hand(batch, step, without);
    scaled.expect_same(plain, "after step " + std::to_string(step));
  }
  auto batch = plain.source.loader->next();
  batch.images[5] = std::numeric_limits<float>::quiet_NaN();
  stepper.take(batch, 3, kStepperLr);
  EXPECT_TRUE(stepper.outcomes().back().is_skipped);
  scaled.expect_same(plain, "after a step that is left out");
}

TEST(StepperNotesTest, AreThereAtOnce) {
  StepperRun run;
  StepOptions options;
  options.notes = [] { return StepNotes{.stop_requests = 1, .bad_samples = 3}; };
  auto stepper = run.stepper(options, Numbers::kLate);
  auto batch = run.source.loader->next();
  const auto notes = stepper.take(batch, 0, kStepperLr);
  EXPECT_EQ(notes.stop_requests, 1);
  EXPECT_EQ(notes.bad_samples, 3);
  EXPECT_EQ(stepper.outcomes().at(0).notes.bad_samples, 3);
}

TEST(StepperDivergedTest, NoWeightChangesFromTheStepOnThatIsNotFinite) {
  for (const auto numbers : {Numbers::kAtOnce, Numbers::kLate}) {
    StepperRun run;
    const StepOptions options{.max_grad_norm = 0.5};
    auto stepper = run.stepper(options, numbers);
    auto good = run.source.loader->next();
    stepper.take(good, 10, kStepperLr);
    const auto weights = run.optimizer->flat_param().clone();
    auto averages = run.ema.state();
    for (auto& [name, average] : averages) average = average.clone();
    auto bad = good;
    bad.images[5] = std::numeric_limits<float>::quiet_NaN();
    if (numbers == Numbers::kAtOnce) {
      EXPECT_THROW(stepper.take(bad, 11, kStepperLr), DivergedError);
    } else {
      stepper.take(bad, 11, kStepperLr);
      stepper.take(good, 12, kStepperLr);  // the host does not know yet
      try {
        stepper.outcomes();
        FAIL() << "expected a DivergedError";
      } catch (const DivergedError& error) {
        EXPECT_NE(std::string(error.what()).find("step 11:"), std::string::npos) << error.what();
      }
    }
    support::expect_same_bits(run.optimizer->flat_param(), weights, "weights");
    for (const auto& [name, average] : run.ema.state()) {
      support::expect_same_bits(average, averages.at(name), name);
    }
  }
}

}  // namespace
}  // namespace fovea::train
