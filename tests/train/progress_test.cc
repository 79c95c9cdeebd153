#include "fovea/train/run/progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace fovea::train {
namespace {

TEST(ProgressTest, FormatsDurations) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(130), "2m10s");
  EXPECT_EQ(format_duration(3780), "1h03m");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "?");
  EXPECT_EQ(format_duration(-1), "?");
}

TEST(ProgressTest, ShowsEveryFigureOfTheStatus) {
  const auto line = format_progress({.epoch = 2,
                                     .num_epochs = 5,
                                     .step = 310,
                                     .num_steps = 1170,
                                     .loss = 0.412,
                                     .accuracy = 85.13,
                                     .images_per_second = 1450.4,
                                     .data_wait = 0.012,
                                     .memory_bytes = 812LL << 20,
                                     .seconds_left = 130});
  EXPECT_EQ(line,
            "epoch 2/5  step 310/1170  loss 0.4120  acc 85.1 %  1,450 img/s  data 1 %  812 MiB  "
            "2m10s left");
  EXPECT_TRUE(format_progress({.remark = "others use 1.7 of 2 cores"})
                  .ends_with("left  others use 1.7 of 2 cores"));
}

TEST(ProgressTest, LeavesAccuracyOutWhereThereIsNone) {
  EXPECT_EQ(format_progress({.epoch = 1, .num_epochs = 1, .step = 1, .num_steps = 9}).find("acc"),
            std::string::npos);
}

}  // namespace
}  // namespace fovea::train
