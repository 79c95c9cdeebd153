#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fovea/parallel/mesh.h"
#include "fovea/train/training_run.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using data::testing::TempDir;
using testing::tiny_config;

// A worker of a run by itself, before its first step.
class OneWorker {
 public:
  explicit OneWorker(const TrainConfig& config)
      : run_(config, ProgressLine::Mode::kSilent, {}, {}) {
    run_.enter(world_, std::make_unique<parallel::DeviceMesh>(world_, parallel::MeshShape{}));
  }
  TrainingRun* operator->() { return &run_; }

 private:
  parallel::World world_;
  TrainingRun run_;
};

// The schedule does not hang on how many steps there are.
TrainConfig config_in(const TempDir& folder) {
  auto config = tiny_config(folder);
  optim::CosineScheduleConfig cosine;
  cosine.total_steps = 12;
  config.schedule = {cosine};
  return config;
}

data::BatchSchedule from_the_second_batch() { return {{0, 24, {}}, {24, 40, {}}}; }

TEST(TrainingRunBatchesTest, ARequestBeforeTheFirstStepCountsFromTheSecondBatchOn) {
  const TempDir folder;
  const auto config = config_in(folder);
  OneWorker worker(config);
  worker->resume();
  worker->take_batch_request("r", 40);
  EXPECT_EQ(worker->order().batch_schedule(), from_the_second_batch());
  worker->begin();
  worker->go();
  EXPECT_EQ(worker->step, 12);
  EXPECT_EQ(worker->position, worker->order().position_of(12));
  EXPECT_EQ(worker->batch_scalars().count("requested_change"), 0u);  // its batches are there
}

// Who gets its state before a step was taken under a request has the batches of the others, and
// does not take the request again.
TEST(TrainingRunBatchesTest, ARequestThatNoBatchHasYetIsPartOfTheState) {
  const TempDir folder;
  auto config = config_in(folder);
  OneWorker worker(config);
  worker->resume();
  worker->take_batch_request("r", 40);
  config.run.dir = folder.file("other");
  OneWorker other(config);
  auto state = worker->checkpoint();
  state.scalars = nlohmann::json::parse(state.scalars.dump());  // as it travels
  other->take(state);
  EXPECT_EQ(other->batch_request, "r");
  EXPECT_EQ(other->order().batch_schedule(), from_the_second_batch());
  other->take_batch_request("r", 40);
  EXPECT_EQ(other->order().batch_schedule(), from_the_second_batch());
  other->take_batch_request("s", 24);
  EXPECT_EQ(other->order().batch_size_at(24), 24);
}

}  // namespace
}  // namespace fovea::train
