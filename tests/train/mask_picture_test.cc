// Pictures of masks.
#include "fovea/train/evaluate/mask_picture.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

bool is_gray(const data::Image& rgb, int64_t y, int64_t x) {
  const auto* pixel = rgb.pixels.data() + (y * rgb.width + x) * 3;
  return pixel[0] == pixel[1] && pixel[1] == pixel[2];
}

TEST(MaskPictureTest, ShowsImageLabelsAndPredictionSideBySide) {
  const auto image = at::arange(64, at::kFloat).reshape({1, 8, 8});
  auto labels = at::zeros({8, 8}, at::kLong), predicted = at::zeros({8, 8}, at::kLong);
  labels.narrow(0, 0, 4).fill_(1);     // above
  predicted.narrow(0, 4, 4).fill_(2);  // below
  labels[7][7] = -1;
  const auto picture = mask_picture(image, labels, predicted, 80);
  ASSERT_EQ(picture.channels, 3);
  ASSERT_GE(picture.width, 240);
  ASSERT_GE(picture.height, 80);
  const int64_t step = (picture.width - 80) / 2;  // from one picture to the next
  const int64_t top = picture.height / 4, bottom = 3 * picture.height / 4;
  EXPECT_TRUE(is_gray(picture, top, 40));
  EXPECT_TRUE(is_gray(picture, bottom, 40));
  EXPECT_FALSE(is_gray(picture, top, step + 40));
  EXPECT_TRUE(is_gray(picture, bottom, step + 40));
  EXPECT_TRUE(is_gray(picture, top, 2 * step + 40));
  EXPECT_FALSE(is_gray(picture, bottom, 2 * step + 40));
}

TEST(MaskPictureTest, ShowsTheMiddleOfTheShortestAxis) {
  auto labels = at::zeros({8, 3, 8}, at::kLong);
  labels.select(1, 1).fill_(1);
  const auto picture = mask_picture(at::zeros({1, 8, 3, 8}), labels, at::zeros_like(labels), 80);
  EXPECT_FALSE(is_gray(picture, picture.height / 2, picture.width / 2));
  EXPECT_TRUE(is_gray(picture, picture.height / 2, picture.width - 40));
}

TEST(MaskPictureTest, GivesImagesDepthOne) {
  const auto map = to_label_map(at::arange(6, at::kLong).reshape({2, 3}));
  EXPECT_EQ(map.size, (data::VolumeSize{1, 2, 3}));
  EXPECT_EQ(map.classes, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_THROW(to_label_map(at::zeros({2, 3, 4, 5}, at::kLong)), Error);
}

}  // namespace
}  // namespace fovea::train
