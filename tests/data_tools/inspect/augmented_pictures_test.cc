#include "fovea/data_tools/inspect/augmented_pictures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "tests/data_tools/inspect_support.h"

namespace fovea::data {
namespace {

using testing::MemoryDataset;

Sample drawn_image(int64_t side, int64_t channels, uint64_t key) {
  Sample sample = testing::plain_image(side, side, channels, 0, 1);
  RandomStream random = testing::test_stream(key);
  for (uint8_t& pixel : sample.image().pixels) pixel = static_cast<uint8_t>(random.below(256));
  return sample;
}

SampleTransforms images(std::vector<TransformConfig> transforms, int64_t in_chans) {
  return std::make_shared<const TransformPipeline>(std::move(transforms), in_chans);
}

TEST(InspectAugmentedTest, NormalisationIsUndone) {
  const MemoryDataset dataset({drawn_image(16, 3, 0)}, {"a", "b"});
  const auto transforms =
      images({{NormalizeConfig{.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}}}}, 3);
  const auto pictures = augmented_pictures(dataset, transforms, 0, {.draws = 3, .side = 16});
  ASSERT_EQ(pictures.size(), 4u);
  Sample stored;
  read_decoded(dataset, 0, stored);
  for (const Image& picture : pictures) EXPECT_EQ(picture.pixels, stored.image().pixels);
}

// Draw k is what the loader gives in epoch k.
TEST(InspectAugmentedTest, DrawsAreThoseOfTheEpochs) {
  const MemoryDataset dataset({drawn_image(20, 3, 0), drawn_image(20, 3, 1)}, {"a", "b"});
  const std::vector<TransformConfig> list = {
      {RandomCropConfig{.size = {16}}}, {HorizontalFlipConfig{}}, {NormalizeConfig{}}};
  const TransformPipeline pipeline(list, 3);
  const auto pictures =
      augmented_pictures(dataset, images(list, 3), 1, {.seed = 5, .draws = 6, .side = 16});
  Sample stored;
  read_decoded(dataset, 1, stored);
  TransformScratch scratch;
  int different = 0;
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    const ImageView expected =
        pipeline.apply_to_pixels(stored.image(), augmentation_stream(5, epoch, 1), scratch);
    const auto& found = pictures[static_cast<size_t>(epoch) + 1].pixels;
    EXPECT_EQ(found, testing::pixels_of(expected)) << epoch;
    different += found != pictures[1].pixels;
  }
  EXPECT_GT(different, 0);
}

TEST(InspectAugmentedTest, MasksFollowTheImage) {
  Sample sample = testing::plain_image(8, 8, 1, 100, 0);
  sample.mask = {{1, 8, 8}, std::vector<int32_t>(64, 0)};
  sample.mask.classes[0] = 1;  // the upper left corner
  MemoryDataset dataset({sample}, {"a", "b"});
  dataset.has_masks_ = true;
  const auto pictures = augmented_pictures(dataset, images({{HorizontalFlipConfig{.p = 1}}}, 1), 0,
                                           {.draws = 1, .side = 8});
  const auto red = [&](size_t picture, size_t x) { return pictures[picture].pixels[3 * x]; };
  EXPECT_NE(red(0, 0), 100);
  EXPECT_EQ(red(0, 7), 100);
  EXPECT_EQ(red(1, 0), 100);
  EXPECT_EQ(red(1, 7), red(0, 0));
}

TEST(InspectAugmentedTest, VolumesShowTheirMiddleSlice) {
  Sample sample = testing::drawn_volume(1, {6, 8, 10}, 2);
  sample.volume().spacing = {1, 2, 1};
  const MemoryDataset dataset({sample}, {}, SampleForm::kVolume);
  const SampleTransforms transforms = std::make_shared<const VolumePipeline>(
      std::vector<VolumeTransformConfig>{{RandFlipConfig{.prob = 0.5, .per_axis = true}},
                                         {NormalizeIntensityConfig{}}},
      1);
  auto pictures = augmented_pictures(dataset, transforms, 0, {.draws = 2, .side = 32});
  ASSERT_EQ(pictures.size(), 3u);
  EXPECT_EQ(pictures[1].height, 32);  // 16 mm
  EXPECT_EQ(pictures[1].width, 20);   // 10 mm
  pictures = augmented_pictures(dataset, transforms, 0,
                                {.draws = 1, .side = 32, .layout = SliceLayout::kCartesian});
  EXPECT_EQ(pictures[1].height, 32);  // y upwards, 16 mm
  EXPECT_EQ(pictures[1].width, 12);   // x, 6 mm
  const auto moved = transformed_sample(dataset, transforms, 0, 1);
  EXPECT_EQ(moved.volume().size, sample.volume().size);
  EXPECT_EQ(moved.volume().spacing, sample.volume().spacing);
}

}  // namespace
}  // namespace fovea::data
