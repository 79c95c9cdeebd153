// Recorded steps with what a recipe may add to them: recomputation, mixed targets, averages,
// clipping.
#include <gtest/gtest.h>

#include "fovea/parallel/recompute.h"
#include "tests/train/graph_run.h"

namespace fovea::train {
namespace {

using testing::GraphRun;
using testing::GraphSetup;

// setup: what both runs have. change: what is done to each of them before the first step.
void expect_same_options(const GraphSetup& setup,
                         const std::function<void(GraphRun&)>& change = {}) {
  GraphRun replayed(setup), eager(setup);
  for (auto* run : {&replayed, &eager}) {
    if (change) change(*run);
  }
  replayed.use_tape();
  testing::expect_replays_are_eager_steps(replayed, eager);
}

class StepGraphRecomputeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(StepGraphRecomputeTest, ReplaysAreTheEagerStepsBitForBit) {
  for (const int64_t micro_batch_size : {0, 7}) {
    GraphSetup setup;
    setup.options.micro_batch_size = micro_batch_size;
    expect_same_options(setup, [](GraphRun& run) {
      parallel::recompute_in_backward(*run.model, GetParam(), /*every=*/2);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Units, StepGraphRecomputeTest,
                         ::testing::Values("block", "every_n", "attention", "mlp"),
                         [](const auto& info) { return std::string(info.param); });

class StepGraphTargetsTest : public ::testing::TestWithParam<ClassificationConfig> {};

// Mixed targets are rows of shares; without mixing labels are classes.
TEST_P(StepGraphTargetsTest, ReplaysAreTheEagerStepsBitForBit) {
  for (const bool is_mixed : {false, true}) {
    GraphSetup setup;
    setup.options.micro_batch_size = 7;
    setup.make = [is_mixed](const data::testing::TempDir& folder) {
      auto config = testing::tiny_config(folder);
      config.task = {GetParam()};
      if (is_mixed) config.data.mixup = {.mixup_alpha = 0.8, .cutmix_alpha = 1.0, .mode = "elem"};
      return config;
    };
    expect_same_options(setup);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Losses, StepGraphTargetsTest,
    ::testing::Values(ClassificationConfig{}, ClassificationConfig{.label_smoothing = 0.1},
                      ClassificationConfig{.loss = "bce", .label_smoothing = 0.1}),
    [](const auto& info) {
      return info.param.loss + (info.param.label_smoothing > 0 ? "_smoothed" : "");
    });

TEST(StepGraphPatchDropTest, ReplaysAreTheEagerStepsBitForBit) {
  GraphSetup setup;
  setup.options.micro_batch_size = 7;
  setup.make = [](const data::testing::TempDir& folder) {
    auto config = testing::tiny_config(folder);
    auto vit = *config.model.get_if<models::VitConfig>();
    vit.patch_drop_rate = 0.5;
    config.model = {vit};
    return config;
  };
  expect_same_options(setup);
}

class StepGraphEmaTest : public ::testing::TestWithParam<std::optional<optim::EmaOptions>> {};

TEST_P(StepGraphEmaTest, ReplaysAreTheEagerStepsBitForBit) {
  GraphSetup setup;
  setup.ema = GetParam();
  expect_same_options(setup);
}

// The average starts to move, reaches its decay and stops growing among the replays.
INSTANTIATE_TEST_SUITE_P(Kinds, StepGraphEmaTest,
                         ::testing::Values(std::nullopt, optim::EmaOptions{.decay = 0.9},
                                           optim::EmaOptions{.decay = 0.7, .warmup = true}));

class StepGraphClipTest : public ::testing::TestWithParam<double> {};  // max_grad_norm

// None, of every step, and of some of them.
TEST_P(StepGraphClipTest, ReplaysAreTheEagerStepsBitForBit) {
  GraphSetup setup;
  setup.options.max_grad_norm = GetParam();
  expect_same_options(setup);
}

INSTANTIATE_TEST_SUITE_P(Norms, StepGraphClipTest, ::testing::Values(0.0, 1e-3, 1.5));

TEST(StepGraphOtherClipTest, OtherKindsOfClippingAreEagerAndSaidSo) {
  for (const auto& [value, ratio] : {std::pair{0.1, 0.0}, std::pair{0.0, 0.01}}) {
    GraphSetup setup;
    setup.options.max_grad_value = value;
    setup.options.max_grad_ratio = ratio;
    GraphRun replayed(setup), eager(setup);
    const auto log = testing::log_of([&] { replayed.use_tape(); });
    EXPECT_NE(log.find("the host has each step's numbers at once"), std::string::npos) << log;
    auto batch = eager.source.loader->next();
    testing::take_both(replayed, eager, batch, 0, 6);
    EXPECT_EQ(replayed.stepper->num_replays(), 0);
    testing::expect_same_run(replayed, eager, "at the end");
  }
}

}  // namespace
}  // namespace fovea::train
