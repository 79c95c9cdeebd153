#include "fovea/data/pictures/preview.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fovea::data {
namespace {

TEST(PreviewTest, ImagesAreShownAsTheyAre) {
  Sample sample;
  sample.become<Image>() = {1, 2, 3, {1, 2, 3, 4, 5, 6}};
  const Image shown = preview_of(sample);
  EXPECT_EQ(shown.channels, 3);
  EXPECT_EQ(shown.pixels, sample.image().pixels);
}

TEST(PreviewTest, VolumesShowTheirMiddleSliceFromBlackToWhite) {
  Sample sample;
  // Two channels of three slices; slice 1 of channel 0 holds -1, 0, 1 and NaN.
  sample.become<Volume>() = {2, {3, 2, 2}, {1, 1, 1}, std::vector<float>(24, 9.0f)};
  const float slice[] = {-1, 0, 1, std::nanf("")};
  std::copy(std::begin(slice), std::end(slice), sample.volume().values.begin() + 4);
  const Image shown = preview_of(sample);
  EXPECT_EQ(shown.channels, 1);
  EXPECT_EQ(shown.height, 2);
  EXPECT_EQ(shown.pixels, (std::vector<uint8_t>{0, 128, 255, 0}));
}

TEST(PreviewTest, ThreeChannelsAreColours) {
  Sample sample;
  sample.become<Volume>() = {3, {1, 1, 2}, {1, 1, 1}, {0, 1, 2, 3, 4, 5}};
  const Image shown = preview_of(sample);
  EXPECT_EQ(shown.channels, 3);
  EXPECT_EQ(shown.pixels, (std::vector<uint8_t>{0, 102, 204, 51, 153, 255}));
}

}  // namespace
}  // namespace fovea::data
