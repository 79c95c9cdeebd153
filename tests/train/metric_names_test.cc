#include "fovea/train/metrics/metric_names.h"

#include <gtest/gtest.h>

namespace fovea::train {
namespace {

TEST(MetricNamesTest, TellsWhichWayIsBetter) {
  EXPECT_TRUE(improves("loss", 1, 2));
  EXPECT_FALSE(improves("loss", 2, 1));
  EXPECT_TRUE(improves("dice", 2, 1));
  EXPECT_FALSE(improves("dice", 1, 1));
}

TEST(MetricNamesTest, LabelsForPeople) {
  EXPECT_EQ(metric_label("psnr"), "PSNR, dB");
  EXPECT_EQ(metric_label("dice"), "Dice");
  EXPECT_EQ(metric_label("dice_12"), "Dice, class 12");
  EXPECT_EQ(metric_label("dice_1", {"background", "white matter"}), "Dice, white matter");
  EXPECT_EQ(metric_label("dice_2", {"background", "white matter"}), "Dice, class 2");
  EXPECT_EQ(metric_label("dice_99999999999999999999", {"background"}),
            "Dice, class 99999999999999999999");
  EXPECT_EQ(metric_label("hd95"), "Hausdorff distance, 95 %");
  EXPECT_EQ(metric_label("hd95_1"), "Hausdorff distance, 95 %, class 1");
  EXPECT_EQ(metric_label("my_metric_3"), "my_metric_3");
  EXPECT_EQ(metric_label("_3"), "_3");
  EXPECT_EQ(metric_label("17"), "17");
  EXPECT_EQ(metric_label(""), "");
}

}  // namespace
}  // namespace fovea::train
