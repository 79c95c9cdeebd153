// Recorded steps of every model that a recipe can name, with its task: replays are the eager steps.
#include <gtest/gtest.h>

#include <map>

#include "fovea/core/error.h"
#include "tests/train/graph_run.h"
#include "tests/train/model_cases.h"

namespace fovea::train {
namespace {

using testing::GraphRun;
using testing::GraphSetup;
using testing::ModelCase;

// What the log says of those that cannot be recorded.
const std::map<std::string, std::string>& reasons() {
  static const std::map<std::string, std::string> all = {
      {"vit_packed", "the numbers of patches of a batch are the host's"},
      {"mae_adaptive_2d", "adaptive patches to be masked"},
      {"mae_adaptive_3d", "adaptive patches to be masked"},
      {"unetr_adaptive_2d", "a map of leaves"},
      {"unetr_adaptive_3d", "a map of leaves"}};
  return all;
}

class StepGraphTasksTest : public ::testing::TestWithParam<ModelCase> {};

// In micro-batches, of which the last is smaller. Batches of the first one's size are replays.
TEST_P(StepGraphTasksTest, ReplaysAreTheEagerStepsBitForBit) {
  GraphSetup setup{.make = GetParam().config};
  setup.options.micro_batch_size = 3;
  GraphRun replayed(setup), eager(setup);
  int64_t whole_batches = 0;
  const auto log = testing::log_of([&] {
    replayed.use_tape();
    for (int64_t step = 0; step < 12; ++step) {
      auto batch = eager.source.loader->next();
      whole_batches += batch.size() == eager.config.data.global_batch_size ? 1 : 0;
      replayed.take(batch, step);
      eager.take(batch, step);
      testing::expect_same_run(replayed, eager, "after step " + std::to_string(step));
    }
  });
  testing::expect_same_outcomes(replayed, eager);
  const auto reason = reasons().find(GetParam().name);
  if (reason == reasons().end()) {
    EXPECT_EQ(replayed.stepper->num_replays(), whole_batches - StepGraph::kWarmUps) << log;
  } else {
    EXPECT_EQ(replayed.stepper->num_replays(), 0);
    EXPECT_NE(log.find(reason->second), std::string::npos) << log;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, StepGraphTasksTest, ::testing::ValuesIn(testing::model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Sums over all pixels and over those that count are other operations.
TEST(StepGraphMasksTest, BatchesWithPixelsThatDoNotCountAreOtherSteps) {
  const GraphSetup setup{.make = testing::unetr_2d};
  GraphRun replayed(setup), eager(setup);
  replayed.use_tape();
  const auto whole = eager.source.loader->next();
  for (int64_t step = 0; step < 8; ++step) {
    auto batch = whole;
    if (step == 5) batch.masks[7] = -1;
    replayed.take(batch, step);
    eager.take(batch, step);
    testing::expect_same_run(replayed, eager, "after step " + std::to_string(step));
  }
  EXPECT_EQ(replayed.stepper->num_replays(), 8 - 1 - StepGraph::kWarmUps);
  auto batch = whole;
  batch.masks[7] = 100;
  EXPECT_THROW(replayed.take(batch, 8), DataError);
}

}  // namespace
}  // namespace fovea::train
