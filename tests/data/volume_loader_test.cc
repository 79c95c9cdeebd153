// The loader over volumes; what it does with any sample is in loader_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/volume/crop_foreground.h"
#include "fovea/data/transforms/volume/rand_affine.h"
#include "fovea/data/transforms/volume/rand_crop_by_pos_neg_label.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/rand_gaussian_noise.h"
#include "fovea/data/transforms/volume/rand_spatial_crop.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

// Volumes of two channels with masks; values and classes tell which sample they are of. Sample 7 is
// `odd`: of another size, or with a NaN.
enum class Odd { kNone, kSize, kNan };

class FakeVolumes : public testing::FakeDataset {
 public:
  explicit FakeVolumes(Odd odd = Odd::kNone, int64_t size = 13) : FakeDataset(size, 4), odd_(odd) {}
  SampleForm form() const override { return SampleForm::kVolume; }
  bool has_masks() const override { return true; }
  void read(int64_t index, Sample& sample) const override {
    const bool is_odd = index == 7;
    sample.become<Volume>().channels = 2;
    sample.volume().size = {6, is_odd && odd_ == Odd::kSize ? 9 : 8, 7};
    const int64_t voxels = sample.volume().size.voxels();
    sample.volume().values.resize(static_cast<size_t>(2 * voxels));
    sample.mask.size = sample.volume().size;
    sample.mask.classes.resize(static_cast<size_t>(voxels));
    for (int64_t i = 0; i < 2 * voxels; ++i) {
      sample.volume().values[static_cast<size_t>(i)] = static_cast<float>(index * 1000 + i);
    }
    for (int64_t i = 0; i < voxels; ++i) {
      sample.mask.classes[static_cast<size_t>(i)] = static_cast<int32_t>((index + i) % 3);
    }
    if (is_odd && odd_ == Odd::kNan) sample.volume().values[5] = std::nanf("");
    sample.label = index;
  }

 private:
  Odd odd_;
};

SampleTransforms pipeline_of(std::vector<VolumeTransformConfig> transforms, int64_t in_chans = 2) {
  return std::make_shared<const VolumePipeline>(std::move(transforms), in_chans);
}

SampleTransforms augmenting() {
  return pipeline_of({{RandAffineConfig{.prob = 0.5, .rotate_range = {0.3, 0.3, 0.3}}},
                      {RandCropByPosNegLabelConfig{.spatial_size = {4, 5, 6}}},
                      {RandFlipConfig{.prob = 0.5, .per_axis = true}},
                      {RandGaussianNoiseConfig{.prob = 0.5, .std = 10}}});
}

void expect_same_volumes(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.image_shape, b.image_shape);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.masks, b.masks);
  ASSERT_EQ(a.images.size(), b.images.size());
  EXPECT_EQ(std::memcmp(a.images.data(), b.images.data(), a.images.size() * sizeof(float)), 0);
}

TEST(VolumeLoaderTest, OutputDoesNotDependOnThreads) {
  const auto dataset = std::make_shared<FakeVolumes>();
  Loader reference(dataset, augmenting(), {.global_batch_size = 5, .threads = 0});
  std::vector<Batch> expected;
  for (int i = 0; i < 7; ++i) expected.push_back(reference.next());
  EXPECT_EQ(expected[0].image_shape, (std::vector<int64_t>{5, 2, 4, 5, 6}));
  EXPECT_EQ(expected[0].images.size(), 5u * 2 * 4 * 5 * 6);
  EXPECT_EQ(expected[0].masks.size(), 5u * 4 * 5 * 6);
  for (const int64_t threads : {1, 4}) {
    Loader loader(dataset, augmenting(), {.global_batch_size = 5, .threads = threads});
    for (const Batch& batch : expected) expect_same_volumes(loader.next(), batch);
  }
}

// Values and classes of each row are those of its sample.
TEST(VolumeLoaderTest, RowsAreTheirSamples) {
  Loader loader(std::make_shared<FakeVolumes>(), pipeline_of({}),
                {.global_batch_size = 13, .threads = 2});
  const Batch batch = loader.next();
  ASSERT_EQ(batch.image_shape, (std::vector<int64_t>{13, 2, 6, 8, 7}));
  for (int64_t row = 0; row < 13; ++row) {
    const int64_t index = batch.indices[static_cast<size_t>(row)];
    EXPECT_EQ(batch.labels[static_cast<size_t>(row)], index);
    for (const int64_t voxel : {0, 17, 335}) {
      EXPECT_EQ(batch.images[static_cast<size_t>(row * 672 + 336 + voxel)],
                static_cast<float>(index * 1000 + 336 + voxel));
      EXPECT_EQ(batch.masks[static_cast<size_t>(row * 336 + voxel)], (index + voxel) % 3);
    }
  }
}

// Sizes that depend on what is in the sample are taken from the first one.
TEST(VolumeLoaderTest, TakesTheSizeOfTheFirstSampleWhereItIsOpen) {
  const SampleTransforms transforms = pipeline_of({{CropForegroundConfig{.threshold = 50}}});
  Loader loader(std::make_shared<FakeVolumes>(Odd::kNone, 1), transforms,
                {.global_batch_size = 1, .threads = 0});
  EXPECT_EQ(loader.next().image_shape, (std::vector<int64_t>{1, 2, 6, 8, 7}));
}

TEST(VolumeLoaderTest, NamesTheSampleThatIsWrong) {
  for (const int64_t threads : {0, 1, 4}) {
    const LoaderOptions options = {.global_batch_size = 13, .threads = threads};
    Loader sizes(std::make_shared<FakeVolumes>(Odd::kSize), pipeline_of({}), options);
    EXPECT_THAT(message_of<DataError>([&] { sizes.next(); }),
                HasSubstr("fake[7]: 6x9x7 voxels after the transforms, expected 6x8x7"));
    Loader values(std::make_shared<FakeVolumes>(Odd::kNan), pipeline_of({}), options);
    EXPECT_THAT(message_of<DataError>([&] { values.next(); }),
                HasSubstr("fake[7]: 1 of 672 values are NaN"));
  }
}

TEST(VolumeLoaderTest, RefusesTransformsOfImages) {
  const auto images = std::make_shared<const TransformPipeline>(std::vector<TransformConfig>{}, 2);
  EXPECT_THROW(Loader(std::make_shared<FakeVolumes>(), images, {}), ConfigError);
}

// Images with masks, as volumes of depth 1.
class FakeScenes : public testing::FakeDataset {
 public:
  FakeScenes() : FakeDataset(6, 4) {}
  bool has_masks() const override { return true; }
  void read(int64_t index, Sample& sample) const override {
    FakeDataset::read(index, sample);
    sample.mask.size = {1, 4, 4};
    sample.mask.classes.assign(sample.image().pixels.begin(), sample.image().pixels.end());
  }
};

TEST(VolumeLoaderTest, TakesImagesWithTheirMasks) {
  Loader loader(std::make_shared<FakeScenes>(),
                pipeline_of({{RandFlipConfig{.prob = 0.5, .spatial_axis = {1, 2}}},
                             {RandSpatialCropConfig{.roi_size = {-1, 3, 2}}}},
                            1),
                {.global_batch_size = 6, .threads = 2});
  for (int step = 0; step < 4; ++step) {
    const Batch batch = loader.next();
    ASSERT_EQ(batch.image_shape, (std::vector<int64_t>{6, 1, 1, 3, 2}));
    ASSERT_EQ(batch.masks.size(), batch.images.size());
    for (size_t i = 0; i < batch.masks.size(); ++i) {
      EXPECT_EQ(batch.images[i], static_cast<float>(batch.masks[i]) / 255.0f);
    }
  }
}

}  // namespace
}  // namespace fovea::data
