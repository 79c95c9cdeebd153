#include "fovea/data/transforms/sample_geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/auto_augment.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/crop_or_pad.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/pad.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/vertical_flip.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::test_stream;

// An image whose pixels are its mask, so that both must move alike.
Image labelled_image(int64_t height, int64_t width) {
  Image image;
  reshape(image, {height, width}, 1);
  for (int64_t i = 0; i < height * width; ++i) {
    image.pixels[i] = static_cast<uint8_t>(1 + (i * 37) % 250);
  }
  return image;
}

LabelMap mask_of(const Image& image) {
  return {{1, image.height, image.width}, {image.pixels.begin(), image.pixels.end()}};
}

// Without resampling a mask follows bit for bit; where the image shows filled pixels (0) the mask
// is -1.
TEST(SampleGeometryTest, MasksFollowNearestPixels) {
  const Image image = labelled_image(13, 17);
  const std::vector<TransformConfig> lists[] = {
      {{HorizontalFlipConfig{.p = 1}}, {VerticalFlipConfig{.p = 1}}},
      {{PadConfig{.padding = {2, 3, 4, 1}}}, {CenterCropConfig{.size = {11, 9}}}},
      {{RandomCropConfig{.size = {10}, .padding = {3}}}, {HorizontalFlipConfig{.p = 1}}},
      {{ResizeConfig{.size = {26, 34}, .interpolation = "nearest"}},
       {CenterCropConfig{.size = {30, 30}}}},
      // No box of up to 13 x 17 pixels puts the middle of one of 8 x 16 between two of its own.
      {{RandomResizedCropConfig{.size = {8, 16}, .interpolation = "nearest"}}},
      {{CenterCropOrPadConfig{.size = {20, 10}}}, {RandomCropOrPadConfig{.size = {9, 25}}}},
      {{HorizontalFlipConfig{.p = 1}},
       {AutoAugmentConfig{.policy = "rand-m9-n1-p1", .fill = {0}, .interpolation = "nearest"}}},
  };
  for (const auto& list : lists) {
    const TransformPipeline pipeline(list, 1);
    for (uint64_t sample = 0; sample < 8; ++sample) {
      TransformScratch scratch;
      const ImageView view = pipeline.apply_to_pixels(image, test_stream(sample), scratch);
      LabelMap moved;
      apply_geometry(scratch.geometry, mask_of(image), moved);
      ASSERT_EQ(moved.size, (VolumeSize{1, view.height, view.width}));
      if (list.back().get_if<AutoAugmentConfig>() != nullptr) continue;  // values change too
      for (int64_t y = 0; y < view.height; ++y) {
        for (int64_t x = 0; x < view.width; ++x) {
          const int32_t label = moved.classes[y * view.width + x];
          ASSERT_EQ(std::max(label, 0), view.row(y)[x]) << y << " " << x;
        }
      }
    }
  }
}

TEST(SampleGeometryTest, RotatedAndShearedMasksFollow) {
  const Image image = labelled_image(20, 20);
  for (const auto action : {AugmentAction::kRotate, AugmentAction::kShearX, AugmentAction::kShearY,
                            AugmentAction::kTranslateX}) {
    TransformScratch scratch;
    scratch.geometry = SampleGeometry({20, 20});
    RandomStream random = test_stream();
    const double arg = action == AugmentAction::kRotate ? 17.0 : 0.23;
    const ImageView view = run_augment_action(action, arg, Interpolation::kNearest, {},
                                              ImageView(image), random, scratch);
    LabelMap moved;
    apply_geometry(scratch.geometry, mask_of(image), moved);
    int differences = 0;
    for (int64_t i = 0; i < 400; ++i) {
      differences += std::max(moved.classes[i], 0) != view.pixels[i];
    }
    EXPECT_LE(differences, 2);  // Pillow places nearest pixels in 16.16 fixed point
  }
}

TEST(SampleGeometryTest, StartsAnewWithEachSample) {
  const TransformPipeline pipeline({{HorizontalFlipConfig{.p = 1}}}, 1);
  TransformScratch scratch;
  pipeline.apply_to_pixels(labelled_image(4, 5), test_stream(), scratch);
  pipeline.apply_to_pixels(labelled_image(6, 7), test_stream(), scratch);
  EXPECT_EQ(scratch.geometry.in_size(), (ImageSize{6, 7}));
  EXPECT_EQ(scratch.geometry.to_input(), (AffineMatrix{-1, 0, 7, 0, 1, 0}));
}

TEST(SampleGeometryTest, SaysWhatDoesNotFit) {
  const SampleGeometry geometry({4, 5});
  LabelMap out;
  EXPECT_THAT(message_of<DataError>([&] {
                apply_geometry(geometry, {{1, 5, 4}, {}}, out);
              }),
              HasSubstr("a mask of 1x5x4 for an image of 4x5 pixels"));
}

}  // namespace
}  // namespace fovea::data
