#include "fovea/data/stage_timer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "fovea/data/datasets/folder.h"
#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/color_jitter.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "tests/data/jpeg_writer.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::TempDir;

TEST(StageTimerTest, TimeBelongsToTheStageEnteredLast) {
  StageTimer timer;
  timer.start();
  {
    const StageScope read(&timer, Stage::kRead);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const StageScope decode(&timer, Stage::kDecode);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(timer.enter(Stage::kWrite), Stage::kOther);  // scopes give back what was before
  const StageTimes times = timer.stop(3);
  EXPECT_EQ(times.samples, 3);
  EXPECT_GE(times.of(Stage::kRead), 2e-3);
  EXPECT_GE(times.of(Stage::kDecode), 2e-3);
  EXPECT_EQ(times.of(Stage::kAugment), 0.0);
  timer.start();
  EXPECT_EQ(timer.stop(0).of(Stage::kRead), 0.0);
}

TEST(StageTimerTest, WithoutATimerNothingHappens) { const StageScope scope(nullptr, Stage::kRead); }

// A folder of JPEGs through a loader; with the clock and without it.
class StagesOfALoaderTest : public ::testing::TestWithParam<int64_t> {
 protected:
  StagesOfALoaderTest() {
    for (int i = 0; i < 8; ++i) {
      dir_.write(fmt::format("a/{}.jpg", i), testing::write_jpeg({40, 50 + i}, {}));
    }
  }

  Loader make_loader() const {
    const auto pipeline = std::make_shared<TransformPipeline>(
        std::vector<TransformConfig>{
            {RandomResizedCropConfig{.size = {16}}}, {ColorJitterConfig{}}, {NormalizeConfig{}}},
        3);
    return Loader(build_folder_dataset({.path = dir_.path()}), pipeline,
                  {.global_batch_size = 8, .threads = GetParam(), .prefetch = 1});
  }

  TempDir dir_;
};

TEST_P(StagesOfALoaderTest, AreCountedWhereAskedForAndChangeNothing) {
  Loader plain = make_loader(), timed = make_loader();
  timed.time_stages(true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(plain.next().images, timed.next().images);
  const StageTimes times = timed.take_stage_times();
  EXPECT_GE(times.samples, 32);
  for (const Stage stage : {Stage::kRead, Stage::kDecode, Stage::kResize, Stage::kAugment,
                            Stage::kWrite, Stage::kOther}) {
    EXPECT_GT(times.of(stage), 0.0) << kStageNames[static_cast<size_t>(stage)];
  }
  EXPECT_EQ(plain.take_stage_times().samples, 0);
}

TEST_P(StagesOfALoaderTest, AreForgottenOnceTaken) {
  Loader loader = make_loader();
  loader.time_stages(true);
  loader.next();
  loader.time_stages(false);
  for (int i = 0; i < 3; ++i) loader.next();  // what was begun with the clock is through
  EXPECT_GT(loader.take_stage_times().samples, 0);
  loader.next();
  EXPECT_EQ(loader.take_stage_times().samples, 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, StagesOfALoaderTest, ::testing::Values(0, 1, 3));

}  // namespace
}  // namespace fovea::data
