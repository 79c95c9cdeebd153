// trainer.micro_batch_size: auto, on an allocator whose memory runs out.
#include "fovea/train/step/pass_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fovea/core/files.h"
#include "fovea/train/trainer.h"
#include "tests/support/counting_allocator.h"
#include "tests/train/run_check.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using support::CountingAllocator;
using ::testing::HasSubstr;

TEST(PassSizeTest, HalvesAndTellsOfIt) {
  std::vector<int64_t> told;
  PassSize passes(0, [&](int64_t size, int64_t from, const std::string& fault, bool goes_on) {
    EXPECT_EQ(fault, "full");
    told.insert(told.end(), {from, size, goes_on});
  });
  passes.halve(25, "full", /*can_retry=*/true);
  EXPECT_EQ(passes.size(), 13);
  EXPECT_THROW(passes.halve(13, "full", /*can_retry=*/false), OutOfMemoryError);
  EXPECT_EQ(passes.size(), 7);
  EXPECT_EQ(told, (std::vector<int64_t>{25, 13, 1, 13, 7, 0}));
  EXPECT_THROW(passes.halve(1, "full", /*can_retry=*/true), OutOfMemoryError);
  EXPECT_FALSE(passes.is_settled());
  for (int i = 0; i < 3; ++i) passes.add_success();
  EXPECT_TRUE(passes.is_settled());
}

class AutoPassesTest : public ::testing::Test {
 protected:
  AutoPassesTest() {
    support::count_cpu_memory();
    config_.data.val = {};
    config_.trainer.max_steps = 4;
    config_.model = {wide_vit()};
  }
  ~AutoPassesTest() override { CountingAllocator::limit = 0; }

  // Of which a step takes far more for activations than for weights.
  static models::VitConfig wide_vit() {
    models::VitConfig vit;
    vit.img_size = {8};
    vit.patch_size = {1};
    vit.in_chans = 1;
    vit.num_classes = 4;
    vit.embed_dim = 32;
    vit.depth = 1;
    vit.num_heads = 2;
    vit.proj_drop_rate = 0.1;
    vit.drop_path_rate = 0.2;
    return vit;
  }

  TrainConfig with(const std::string& run, std::optional<int64_t> micro_batch_size) const {
    auto config = config_;
    config.run.dir = folder_.file(run);
    config.trainer.micro_batch_size = micro_batch_size;
    return config;
  }

  // Bytes beyond those that were in use before.
  static int64_t peak_of(const TrainConfig& config) {
    const int64_t before = CountingAllocator::in_use;
    CountingAllocator::peak = before;
    testing::fit(config);
    return CountingAllocator::peak - before;
  }

  data::testing::TempDir folder_;
  TrainConfig config_ = testing::tiny_config(folder_);
};

TEST_F(AutoPassesTest, IsTheRunOfTheSizeThatFitsBitForBit) {
  const auto six = peak_of(with("six", 6)), twelve = peak_of(with("twelve", 12));
  ASSERT_GT(twelve, six * 5 / 4);
  CountingAllocator::limit = CountingAllocator::in_use + (six + twelve) / 2;
  EXPECT_THROW(testing::fit(with("fixed", 24)), c10::OutOfMemoryError);
  CountingAllocator::limit = CountingAllocator::in_use + (six + twelve) / 2;
  testing::fit(with("auto", {}));
  CountingAllocator::limit = 0;
  testing::expect_same_run(folder_.file("auto"), folder_.file("six"));
  EXPECT_EQ(kept_pass_size(folder_.file("auto/micro_batch.json")), 6);
  const auto log = read_file(folder_.file("auto/train.log"), 1 << 20);
  EXPECT_THAT(log, HasSubstr("memory ran out in a pass of 24 samples"));
  EXPECT_THAT(log, HasSubstr("memory ran out in a pass of 12 samples"));
  EXPECT_THAT(log, HasSubstr("going on with passes of 6"));
}

TEST_F(AutoPassesTest, BeginsWithTheSizeThatTheFolderKeeps) {
  auto config = with("auto", {});
  config.checkpoint.every_steps = 2;
  keep_pass_size(folder_.file("auto/micro_batch.json"), 6);
  testing::fit(with("six", 6));
  testing::fit(config);
  testing::expect_same_run(config.run.dir, folder_.file("six"));
  testing::go_back_to(config.run.dir, 2);
  testing::fit(config);
  testing::expect_same_run(config.run.dir, folder_.file("six"));
  folder_.write("auto/micro_batch.json", "{\"micro_batch_size\": -1}");
  EXPECT_THROW(kept_pass_size(config.run.dir + "/micro_batch.json"), CheckpointError);
}

TEST_F(AutoPassesTest, OneSampleThatDoesNotFitEndsTheRun) {
  const auto one = peak_of(with("one", 1));
  CountingAllocator::limit = CountingAllocator::in_use + one / 2;
  try {
    testing::fit(with("none", {}));
    FAIL();
  } catch (const c10::OutOfMemoryError&) {  // the model alone
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a pass of one sample"));
  }
}

}  // namespace
}  // namespace fovea::train
