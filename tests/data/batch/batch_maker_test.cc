#include "fovea/data/batch/batch_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "fovea/data/datasets/folder.h"
#include "fovea/data/loader.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "tests/data/jpeg_writer.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using testing::write_jpeg;

std::shared_ptr<const TransformPipeline> training_pipeline() {
  return std::make_shared<TransformPipeline>(
      std::vector<TransformConfig>{{RandomResizedCropConfig{.size = {24}, .scaled_decode = false}},
                                   {HorizontalFlipConfig{}},
                                   {NormalizeConfig{}}},
      3);
}

// JPEGs of several sizes and a PNG: all that an image folder may hold.
void write_images(const TempDir& dir) {
  for (int i = 0; i < 9; ++i) {
    dir.write(fmt::format("{}/{}.jpg", i % 2, i),
              write_jpeg({60 + 7 * i, 90 - 5 * i}, {.channels = i == 4 ? 1 : 3}));
  }
  dir.write("0/a.png", testing::golden("file.png_rgb").bytes);
}

// Only what the crop needs is decoded, and no one can tell from the batch.
TEST(BatchMakerTest, UndecodedFilesGiveTheSameBatches) {
  const TempDir dir;
  write_images(dir);
  const auto dataset = build_folder_dataset({.path = dir.path()});
  const auto pipeline = training_pipeline();
  const LoaderOptions options = {.global_batch_size = 10, .seed = 3};
  const BatchMaker maker(dataset, {pipeline}, options);
  Batch batch;
  maker.open(0, batch);
  BatchScratch scratch;
  maker.fill(batch, 0, 10, scratch);
  TransformScratch transforms;
  for (size_t row = 0; row < 10; ++row) {
    const int64_t index = batch.indices[row];
    Sample sample;
    read_decoded(*dataset, index, sample);
    const ImageView view = pipeline->apply_to_pixels(
        sample.image(), augmentation_stream(options.seed, 0, index), transforms);
    EXPECT_EQ(batch.labels[row], sample.label);
    const auto pixels = testing::pixels_of(view);
    for (size_t i = 0; i < pixels.size(); ++i) {
      const size_t place = row * pixels.size() + i % 3 * 576 + i / 3;
      ASSERT_EQ(batch.images[place], (static_cast<float>(pixels[i]) / 255.0f - 0.5f) / 0.5f);
    }
  }
}

TEST(BatchMakerTest, BytesForTheDeviceAndThreadsMakeNoDifference) {
  const TempDir dir;
  write_images(dir);
  const auto dataset = build_folder_dataset({.path = dir.path()});
  LoaderOptions options = {.global_batch_size = 5, .threads = 0};
  Loader floats(dataset, training_pipeline(), options);
  options.pixel_type = PixelType::kUint8;
  options.threads = 3;
  Loader bytes(dataset, training_pipeline(), options);
  for (int step = 0; step < 6; ++step) {
    const Batch expected = floats.next();
    const Batch batch = bytes.next();
    EXPECT_TRUE(batch.images.empty());
    EXPECT_TRUE(expected.bytes.empty());
    EXPECT_EQ(batch.image_shape, expected.image_shape);
    ASSERT_EQ(batch.bytes.size(), expected.images.size());
    for (size_t i = 0; i < batch.bytes.size(); ++i) {
      ASSERT_EQ((static_cast<float>(batch.bytes[i]) / 255.0f - 0.5f) / 0.5f, expected.images[i]);
    }
  }
}

TEST(BatchMakerTest, DamagedFilesAreNamed) {
  const TempDir dir;
  auto cut = write_jpeg({97, 131}, {});
  cut.resize(cut.size() / 2);
  dir.write("0/cut.jpg", cut);
  const BatchMaker maker(build_folder_dataset({.path = dir.path()}), {training_pipeline()},
                         {.global_batch_size = 1});
  Batch batch;
  maker.open(0, batch);
  BatchScratch scratch;
  EXPECT_THAT(message_of<DataError>([&] { maker.fill(batch, 0, 1, scratch); }),
              HasSubstr("0/cut.jpg: the JPEG is truncated"));
}

}  // namespace
}  // namespace fovea::data
