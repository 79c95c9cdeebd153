#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/pad.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/vertical_flip.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::message_of;
using testing::pixels_of;
using testing::sizes_in;
using testing::test_stream;

template <class Config>
std::vector<uint8_t> geometry_result(const Config& config, const Image& image,
                                     uint64_t sample = 0) {
  TransformScratch scratch;
  RandomStream random = test_stream(sample);
  const ImageView view = config.apply(ImageView(image), random, scratch);
  const auto size = TransformConfig(config)->output_size(ImageSize{image.height, image.width});
  EXPECT_EQ(size, view.size());
  return pixels_of(view);
}

TEST(GeometryTest, CenterCropGivesTorchvisionsPixels) {
  const auto names = golden_names("center_crop");
  EXPECT_EQ(names.size(), 10u);
  for (const auto& name : names) {
    EXPECT_EQ(geometry_result(CenterCropConfig{.size = sizes_in(name[2])},
                              golden("image." + name[1]).image()),
              golden("center_crop." + name[1] + "." + name[2]).bytes)
        << name[1] << " " << name[2];
  }
}

TEST(GeometryTest, PadGivesTorchvisionsPixels) {
  for (const auto& name : golden_names("pad")) {
    const PadConfig config = {.padding = {3, 1, 4, 2}, .fill = 7, .mode = name[2]};
    EXPECT_EQ(geometry_result(config, golden("image." + name[1]).image()),
              golden("pad." + name[1] + "." + name[2] + ".3.1.4.2").bytes)
        << name[1] << " " << name[2];
  }
  EXPECT_EQ(golden_names("pad").size(), 6u);
}

TEST(GeometryTest, ResizeOfTheShorterEdgeGivesTorchvisionsPixels) {
  for (const auto& name : golden_names("resize_shorter")) {
    EXPECT_EQ(geometry_result(ResizeConfig{.size = {24}, .interpolation = name[2]},
                              golden("image." + name[1]).image()),
              golden("resize_shorter." + name[1] + "." + name[2] + ".24").bytes);
  }
  EXPECT_EQ(golden_names("resize_shorter").size(), 6u);
}

TEST(GeometryTest, ACropIsResizedWithoutItsSurroundings) {
  for (const auto& name : golden_names("resized_crop")) {
    const Image in = golden("image." + name[1]).image();
    ResizeScratch scratch;
    Image out;
    resize(ImageView(in).crop(5, 9, {23, 31}), {16, 18}, interpolation_from_name(name[2]), out,
           scratch);
    EXPECT_EQ(out.pixels,
              golden("resized_crop." + name[1] + "." + name[2] + ".5.9.23x31.16x18").bytes);
  }
  EXPECT_EQ(golden_names("resized_crop").size(), 6u);
}

// Mean of (top, left, height, width, area, log ratio) of many boxes against torchvision's: five
// standard errors of the difference; and the spread.
TEST(GeometryTest, CropBoxesAreDistributedAsTorchvisions) {
  constexpr int kBoxes = 40000;
  const auto names = golden_names("crop_boxes");
  EXPECT_EQ(names.size(), 2u);
  for (const auto& name : names) {
    const auto size = sizes_in(name[1]);
    const auto expected = golden("crop_boxes." + name[1]).values<double>();  // [2, 6]
    std::vector<double> sums(6), squares(6);
    for (int i = 0; i < kBoxes; ++i) {
      RandomStream random = test_stream(i);
      const PixelBox box = draw_resized_crop({}, {size[0], size[1]}, random);
      ASSERT_GE(box.top, 0);
      ASSERT_GE(box.left, 0);
      ASSERT_LE(box.top + box.size.height, size[0]);
      ASSERT_LE(box.left + box.size.width, size[1]);
      const double height = static_cast<double>(box.size.height);
      const double width = static_cast<double>(box.size.width);
      const double values[6] = {static_cast<double>(box.top),
                                static_cast<double>(box.left),
                                height,
                                width,
                                height * width,
                                std::log(width / height)};
      for (int k = 0; k < 6; ++k) {
        sums[k] += values[k];
        squares[k] += values[k] * values[k];
      }
    }
    for (int k = 0; k < 6; ++k) {
      const double mean = sums[k] / kBoxes;
      const double deviation = std::sqrt(squares[k] / kBoxes - mean * mean);
      EXPECT_NEAR(mean, expected[k], 5 * expected[6 + k] * std::sqrt(2.0 / kBoxes))
          << name[1] << " " << k;
      EXPECT_NEAR(deviation, expected[6 + k], 0.03 * expected[6 + k]) << name[1] << " " << k;
    }
  }
}

TEST(GeometryTest, CropFallsBackToTheCentre) {
  const auto names = golden_names("crop_fallback");
  EXPECT_EQ(names.size(), 3u);
  for (const auto& name : names) {
    const auto size = sizes_in(name[1]);
    RandomStream random = test_stream();
    const PixelBox box = draw_resized_crop({.scale = {2.0, 2.0}}, {size[0], size[1]}, random);
    EXPECT_EQ((std::vector<int64_t>{box.top, box.left, box.size.height, box.size.width}),
              golden("crop_fallback." + name[1]).values<int64_t>())
        << name[1];
  }
}

TEST(GeometryTest, RandomResizedCropIsAFunctionOfTheStream) {
  const Image in = golden("image.rgb").image();
  const RandomResizedCropConfig config = {.size = {12, 10}};
  EXPECT_EQ(geometry_result(config, in, 3), geometry_result(config, in, 3));
  EXPECT_NE(geometry_result(config, in, 3), geometry_result(config, in, 4));
}

TEST(GeometryTest, FlipsTurnRowsAndColumns) {
  const Image in = {2, 3, 1, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(geometry_result(HorizontalFlipConfig{.p = 1}, in),
            (std::vector<uint8_t>{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(geometry_result(VerticalFlipConfig{.p = 1}, in),
            (std::vector<uint8_t>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(geometry_result(HorizontalFlipConfig{.p = 0}, in), in.pixels);
  const Image rgb = {1, 2, 3, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(geometry_result(HorizontalFlipConfig{.p = 1}, rgb),
            (std::vector<uint8_t>{4, 5, 6, 1, 2, 3}));
}

TEST(GeometryTest, FlipsHappenWithTheirProbability) {
  const Image in = {1, 2, 1, {1, 2}};
  int flips = 0;
  for (int i = 0; i < 10000; ++i)
    flips += geometry_result(HorizontalFlipConfig{.p = 0.3}, in, i)[0] == 2;
  EXPECT_NEAR(flips, 3000, 250);  // five standard deviations
}

TEST(GeometryTest, RandomCropVisitsEveryPlaceOfThePaddedImage) {
  const Image in = {2, 2, 1, {1, 2, 3, 4}};
  const RandomCropConfig config = {.size = {2}, .padding = {1}, .fill = 9};
  std::map<std::vector<uint8_t>, int> counts;
  for (int i = 0; i < 9000; ++i) ++counts[geometry_result(config, in, i)];
  EXPECT_EQ(counts.size(), 9u);
  for (const auto& [pixels, count] : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_TRUE(counts.contains({9, 9, 9, 1}));
  EXPECT_TRUE(counts.contains({4, 9, 9, 9}));
}

TEST(GeometryTest, SaysWhyAnImageIsTooSmall) {
  const Image in = {2, 3, 1, {1, 2, 3, 4, 5, 6}};
  EXPECT_THAT(message_of<DataError>([&] { geometry_result(RandomCropConfig{.size = {4}}, in); }),
              HasSubstr("2x3 pixels, 2x3 with padding, is smaller than random_crop's 4x4"));
  EXPECT_THAT(message_of<DataError>(
                  [&] { geometry_result(PadConfig{.padding = {2}, .mode = "reflect"}, in); }),
              HasSubstr("too small for padding of [2, 2, 2, 2] by reflection"));
}

TEST(GeometryTest, KnowsWhichSizesAreFixed) {
  EXPECT_EQ(ResizeConfig{.size = {24}}.output_size(std::nullopt), std::nullopt);
  EXPECT_EQ((ResizeConfig{.size = {24, 30}}.output_size(std::nullopt)), (ImageSize{24, 30}));
  EXPECT_EQ((ResizeConfig{.size = {24}}.output_size(ImageSize{100, 50})), (ImageSize{48, 24}));
  EXPECT_EQ((PadConfig{.padding = {1, 2}}.output_size(ImageSize{5, 5})), (ImageSize{9, 7}));
  EXPECT_EQ(TransformConfig(HorizontalFlipConfig{})->output_size(std::nullopt), std::nullopt);
}

}  // namespace
}  // namespace fovea::data
