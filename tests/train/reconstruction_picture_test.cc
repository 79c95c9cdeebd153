#include "fovea/train/evaluate/reconstruction_picture.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

int pixel(const data::Image& image, int64_t y, int64_t x, int64_t channel = 0) {
  return image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + channel)];
}

TEST(ReconstructionPictureTest, DrawsSmallImagesLargerAndSideBySide) {
  auto image = at::zeros({1, 2, 2});
  image[0][0][1] = 4.0;  // white
  image[0][1][0] = 1.0;
  auto other = at::full({1, 2, 2}, -3.0);                     // below: black
  other[0][1][1] = std::numeric_limits<double>::quiet_NaN();  // gray
  other[0][0][0] = 9.0;                                       // above: white
  const auto picture = side_by_side({image, other});
  EXPECT_EQ(picture.height, 112);
  EXPECT_EQ(picture.width, 2 * 112 + 4);
  EXPECT_EQ(picture.channels, 1);
  EXPECT_EQ(pixel(picture, 0, 0), 0);
  EXPECT_EQ(pixel(picture, 55, 56), 255);
  EXPECT_EQ(pixel(picture, 56, 55), 64);
  EXPECT_EQ(pixel(picture, 30, 113), 255) << "the gap";
  EXPECT_EQ(pixel(picture, 0, 116), 255);
  EXPECT_EQ(pixel(picture, 0, 116 + 56), 0);
  EXPECT_EQ(pixel(picture, 111, 227), 128);
}

TEST(ReconstructionPictureTest, ShowsTheMiddleSliceAndShrinksLargeImages) {
  auto volume = at::zeros({2, 3, 512, 256});
  volume[0][1].fill_(1.0);  // the slice in the middle of the first channel
  volume[0][1][0][0] = 0.0;
  const auto picture = side_by_side({volume});
  EXPECT_EQ(picture.height, 256);
  EXPECT_EQ(picture.width, 128);
  EXPECT_EQ(pixel(picture, 128, 64), 255);
}

TEST(ReconstructionPictureTest, ShowsThreeChannelsAsColours) {
  auto image = at::zeros({3, 2, 2});
  image[1].fill_(2.0);
  const auto picture = side_by_side({image});
  ASSERT_EQ(picture.channels, 3);
  EXPECT_EQ(pixel(picture, 5, 5, 0), 0);
  EXPECT_EQ(pixel(picture, 5, 5, 1), 255);
}

TEST(ReconstructionPictureTest, RefusesWhatIsNoImage) {
  EXPECT_THROW(side_by_side({}), Error);
  EXPECT_THROW(side_by_side({at::zeros({4, 4})}), Error);
}

}  // namespace
}  // namespace fovea::train
