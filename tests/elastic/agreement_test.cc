#include "fovea/elastic/agreement.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/parallel/mesh.h"
#include "tests/elastic/state_check.h"
#include "tests/parallel/sharded_run.h"
#include "tests/train/model_cases.h"
#include "tests/train/tiny_run.h"

namespace fovea::elastic {
namespace {

using train::PreparedStep;
using train::StepStage;

PreparedStep numbers_of(int64_t step) {
  return {.step = step,
          .position = 24 * step,
          .sums = {.weight = 1.0 / 3,
                   .names = {"top1", "top5"},
                   .numbers = at::tensor({0.1, std::numeric_limits<double>::quiet_NaN(),
                                          std::numeric_limits<double>::infinity()},
                                         at::kDouble)},
          .notes = {.stop_requests = 1, .bad_samples = 2},
          .clip = at::tensor({1e-310, 0.3, 0.0, 1.0}, at::kDouble)};
}

StepStand stand(int64_t done, bool has_sums = false, std::optional<int64_t> numbers = {}) {
  StepStand result{.done = done, .has_sums = has_sums, .numbers = {}};
  if (numbers) result.numbers = numbers_of(*numbers);
  return result;
}

constexpr auto kKeep = StepChoice::kKeep, kFinish = StepChoice::kFinish,
               kDiscard = StepChoice::kDiscard;
using Choices = std::vector<StepChoice>;

TEST(AgreementTest, NumbersComeBackInEveryBit) {
  const auto text = to_text(stand(7, true, 7));
  const auto read = stand_from(text);
  EXPECT_EQ(to_text(read), text);
  EXPECT_EQ(read.done, 7);
  EXPECT_TRUE(read.has_sums);
  EXPECT_EQ(read.numbers->sums.names, (std::vector<std::string>{"top1", "top5"}));
  EXPECT_EQ(read.numbers->sums.weight, 1.0 / 3);
  EXPECT_EQ(read.numbers->clip[0].item<double>(), 1e-310);
  EXPECT_EQ(read.numbers->notes.bad_samples, 2);
  EXPECT_FALSE(read.numbers->sums.halves.defined());
  auto measured = stand(7, true, 7);
  measured.numbers->sums.halves = at::tensor({0.1, 0.2, -1e-310}, at::kDouble).view({1, 3});
  measured.numbers->sums.first_weight = 0.1;
  const auto again = stand_from(to_text(measured));
  EXPECT_TRUE(again.numbers->sums.halves.equal(measured.numbers->sums.halves));
  EXPECT_EQ(again.numbers->sums.first_weight, 0.1);
  for (const char* bad : {"", "{}", "[]", R"({"done": "1", "has_sums": true})"}) {
    EXPECT_THROW(stand_from(bad), DataError) << bad;
  }
}

TEST(AgreementTest, WhereNobodyHasDoneItAllTakeItAnew) {
  const auto agreement = agree({stand(5), stand(5, true), stand(5, false, 4), stand(-1)});
  EXPECT_EQ(agreement.done, 5);
  EXPECT_EQ(agreement.choices, (Choices{kKeep, kKeep, kKeep, kDiscard}));
}

TEST(AgreementTest, WhereOneHasDoneItTheOthersDo) {
  const auto agreement = agree({stand(5, true), stand(6, false, 5), stand(5, true, 5)});
  EXPECT_EQ(agreement.done, 6);
  EXPECT_EQ(agreement.choices, (Choices{kFinish, kKeep, kFinish}));
  EXPECT_EQ(agreement.numbers->step, 5);
}

TEST(AgreementTest, WhereOneHasItsNumbersAllDoIt) {
  const auto agreement = agree({stand(5, true), stand(5, true, 5), stand(-1)});
  EXPECT_EQ(agreement.done, 6);
  EXPECT_EQ(agreement.choices, (Choices{kFinish, kFinish, kDiscard}));
  // Unless one of them cannot.
  const auto anew = agree({stand(5), stand(5, true, 5)});
  EXPECT_EQ(anew.done, 5);
  EXPECT_EQ(anew.choices, (Choices{kKeep, kKeep}));
}

TEST(AgreementTest, WhoIsBehindWithoutSumsHasNoState) {
  const auto agreement = agree({stand(5), stand(6, false, 5), stand(3, true), stand(-1)});
  EXPECT_EQ(agreement.done, 6);
  EXPECT_EQ(agreement.choices, (Choices{kDiscard, kKeep, kDiscard, kDiscard}));
  EXPECT_EQ(agree({stand(-1), stand(-1)}).done, -1);
  EXPECT_EQ(agree({stand(0), stand(-1)}).done, 0);  // a start
}

// One process takes steps; another with its state breaks off each of them in its last collective,
// and finishes it with the numbers of the first.
TEST(AgreementTest, AStepThatWasBrokenOffIsFinishedBitForBit) {
  const train::testing::Folder folder;
  for (const double max_value : {0.0, 0.01}) {  // clipped in the update's pass, and before it
    auto config = train::testing::tiny_config(folder);
    config.trainer.max_grad_norm = 0.1;
    config.trainer.max_grad_value = max_value;
    train::testing::ShardedTraining whole(config, nullptr, at::kFloat);
    train::testing::ShardedTraining broken(config, nullptr, at::kFloat);
    train::StepProgress progress;
    broken.options.progress = &progress;
    const auto parts = broken.step_parts();
    EXPECT_EQ(stand_of(progress, parts, 0).done, 0);
    for (int64_t step = 0; step < 3; ++step) {
      auto batch = whole.source.loader->next();
      const auto prepared = prepare_step(whole.step_parts(), batch, step);
      const auto expected = outcome_of(prepared, whole.options);
      apply_step(whole.step_parts(), prepared, 1e-3);

      auto same = broken.source.loader->next();
      prepare_step(parts, same, step);
      EXPECT_EQ(to_text(stand_of(progress, parts, 0)),
                to_text({.done = step, .has_sums = true, .numbers = prepared}));
      if (max_value == 0) {  // as it is before the numbers come
        progress.stage = StepStage::kSummed;
        progress.prepared = {};
        EXPECT_FALSE(stand_of(progress, parts, 0).numbers.has_value());
      }
      const auto agreement = agree({stand_of(progress, parts, 0),
                                    {.done = step + 1, .has_sums = false, .numbers = prepared}});
      EXPECT_EQ(agreement.choices.front(), kFinish);
      const auto outcome = carry_out(agreement, agreement.choices.front(), broken, 1e-3);
      EXPECT_EQ(outcome->loss, expected.loss);
      EXPECT_EQ(outcome->grad_norm, expected.grad_norm);
      EXPECT_EQ(stand_of(progress, parts, 0).done, step + 1);
    }
    testing::expect_same_state(broken.save(), whole.save());
  }
}

// A worker of a run by itself.
class OneWorker {
 public:
  explicit OneWorker(const train::TrainConfig& config)
      : run_(config, ProgressLine::Mode::kSilent, {}, {}) {
    run_.hooks.change_is_due = [](int64_t) { return false; };
  }
  void enter() {
    run_.enter(world_, std::make_unique<parallel::DeviceMesh>(world_, parallel::MeshShape{}));
  }
  train::TrainingRun& run() { return run_; }
  StepStand stand() const { return stand_of(run_); }

 private:
  parallel::World world_;
  train::TrainingRun run_;
};

// A member that is lost while the others begin breaks off a generation without a step.
TEST(StandOfRunTest, OneThatWasGivenItsStateAndHasNotBegunIsAtItsStep) {
  const data::testing::TempDir folder;
  OneWorker giver(train::testing::tiny_config(folder));
  EXPECT_EQ(giver.stand().done, -1);
  giver.enter();
  giver.run().resume();
  giver.run().begin();
  EXPECT_EQ(giver.stand().done, 0);
  giver.run().go();
  EXPECT_EQ(giver.stand().done, 12);
  OneWorker other(train::testing::tiny_config(folder, "other"));
  other.enter();
  auto state = giver.run().checkpoint(train::HaveAlike::kEach);
  state.scalars = nlohmann::json::parse(state.scalars.dump());  // as others get them
  other.run().take(state);
  EXPECT_EQ(other.stand().done, 12);
}

}  // namespace
}  // namespace fovea::elastic
