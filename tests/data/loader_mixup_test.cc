// Mixup, cutmix, repeated augmentation and masks in the loader: what the parts do is in the tests
// of batch_mixup and repeated_augmentation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "fovea/data/loader.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/order/repeated_augmentation.h"
#include "fovea/data/transforms/batch_mixup.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/mixup_config.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int64_t kPixels = 64;

SampleTransforms crops_and_flips() {
  return std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{{RandomCropConfig{.size = {8}, .padding = {2}}},
                                   {HorizontalFlipConfig{}},
                                   {NormalizeConfig{}}},
      /*in_chans=*/1);
}

const MixupConfig kBoth = {.mixup_alpha = 0.8, .cutmix_alpha = 1.0, .mode = "elem"};

Loader mixing_loader(LoaderOptions options, const MixupConfig& mixup = kBoth) {
  options.mixup = mixup;
  return Loader(std::make_shared<FakeDataset>(23, 8), crops_and_flips(), options);
}

std::span<const float> row_of(const std::vector<float>& values, int64_t rows, int64_t row) {
  const size_t count = values.size() / static_cast<size_t>(rows);
  return std::span(values).subspan(static_cast<size_t>(row) * count, count);
}

TEST(LoaderMixupTest, MixesAsThePlanSays) {
  const LoaderOptions options = {.global_batch_size = 6, .seed = 5, .threads = 0};
  Loader plain(std::make_shared<FakeDataset>(23, 8), crops_and_flips(), options);
  Loader mixing = mixing_loader(options);
  const BatchMixup batch_mixup(kBoth, 5, {8, 8});
  int64_t mixed_rows = 0;
  for (int step = 0; step < 8; ++step) {
    const Batch expected = plain.next(), found = mixing.next();
    const int64_t rows = expected.size();
    ASSERT_EQ(found.labels, expected.labels);
    ASSERT_EQ(found.targets.size(), static_cast<size_t>(rows * 10));
    for (int64_t row = 0; row < rows; ++row) {
      const RowMixup mix = batch_mixup.plan_row(found.position, row, rows);
      mixed_rows += mix.is_mixed();
      const auto own = row_of(expected.images, rows, row);
      std::vector<float> image(own.begin(), own.end());
      mixup_row(mix, {8, 8}, row_of(expected.images, rows, mix.partner), image);
      const auto pixels = row_of(found.images, rows, row);
      EXPECT_EQ(std::vector<float>(pixels.begin(), pixels.end()), image);
      std::vector<float> targets(10, 0.0f);
      targets[static_cast<size_t>(expected.labels[row])] += static_cast<float>(mix.lam);
      targets[static_cast<size_t>(expected.labels[mix.partner])] += static_cast<float>(1 - mix.lam);
      for (int64_t k = 0; k < 10; ++k) {
        EXPECT_FLOAT_EQ(row_of(found.targets, rows, row)[k], targets[static_cast<size_t>(k)]);
      }
    }
  }
  EXPECT_GT(mixed_rows, 20);
}

// A rank whose partners belong to others reads them itself; no one can tell from the rows.
TEST(LoaderMixupTest, ShardsAndThreadsSeeWhatOneProcessSees) {
  for (const char* mode : {"batch", "pair", "elem"}) {
    MixupConfig mixup = kBoth;
    mixup.mode = mode;
    Loader whole = mixing_loader({.global_batch_size = 7, .threads = 3}, mixup);
    std::vector<Loader> shards;
    for (int64_t index = 0; index < 3; ++index) {
      shards.push_back(mixing_loader(
          {.global_batch_size = 7, .threads = index, .share = BatchShare::of_rank(index, 3)},
          mixup));
    }
    for (int step = 0; step < 9; ++step) {
      const Batch expected = whole.next();
      for (Loader& loader : shards) {
        const Batch found = loader.next();
        for (int64_t row = 0; row < found.size(); ++row) {
          const int64_t global_row = found.rows[static_cast<size_t>(row)];
          const auto image = row_of(found.images, found.size(), row);
          const auto wanted = row_of(expected.images, expected.size(), global_row);
          ASSERT_EQ(std::memcmp(image.data(), wanted.data(), kPixels * sizeof(float)), 0)
              << mode << " step " << step << " row " << global_row;
          const auto targets = row_of(found.targets, found.size(), row);
          const auto wanted_targets = row_of(expected.targets, expected.size(), global_row);
          ASSERT_TRUE(std::equal(targets.begin(), targets.end(), wanted_targets.begin()));
        }
      }
    }
  }
}

TEST(LoaderMixupTest, LocalPartnersStayInTheShard) {
  MixupConfig mixup = kBoth;
  mixup.timm_local = true;
  const LoaderOptions options = {
      .global_batch_size = 8, .seed = 2, .threads = 1, .share = BatchShare::of_rank(1, 2)};
  Loader plain(std::make_shared<FakeDataset>(23, 8), crops_and_flips(), options);
  Loader mixing = mixing_loader(options, mixup);
  const Batch expected = plain.next(), found = mixing.next();
  auto images = expected.images;
  std::vector<float> scratch;
  mixup_batch(BatchMixup(mixup, 2, {8, 8}).plan(0, 8, BatchShare::of_rank(1, 2)), {8, 8}, images,
              scratch);
  EXPECT_EQ(found.images, images);
  EXPECT_NE(found.images, expected.images);
}

// What is to be done with bytes is what is done to floats.
TEST(LoaderMixupTest, BytesComeWithTheirMixes) {
  LoaderOptions options = {.global_batch_size = 7, .seed = 2, .threads = 1};
  Loader mixing = mixing_loader(options, kBoth);
  options.pixel_type = PixelType::kUint8;
  Loader bytes = mixing_loader(options, kBoth);
  const auto pipeline = std::get<0>(crops_and_flips());
  int64_t boxes = 0, shares = 0;
  for (int step = 0; step < 6; ++step) {
    const Batch expected = mixing.next(), found = bytes.next();
    EXPECT_EQ(found.targets, expected.targets);
    EXPECT_EQ(found.byte_steps.mean, pipeline->mean());
    EXPECT_EQ(found.byte_steps.std, pipeline->std());
    const auto rows = static_cast<size_t>(found.size());
    ASSERT_EQ(found.byte_steps.mixups.size(), rows);
    const size_t values = found.bytes.size() / rows, plane = 64, channels = values / plane;
    const auto pixel = [&](size_t row, size_t i) {
      const size_t c = i / plane % channels;
      return (static_cast<float>(found.bytes[row * values + i]) / 255.0f - pipeline->mean()[c]) /
             pipeline->std()[c];
    };
    for (size_t row = 0; row < rows; ++row) {
      const ByteMixup& mix = found.byte_steps.mixups[row];
      const auto partner = static_cast<size_t>(mix.partner);
      boxes += mix.height * mix.width > 0;
      shares += mix.lam != 1.0f;
      for (size_t i = 0; i < values; ++i) {
        const auto y = static_cast<int64_t>(i % plane / 8), x = static_cast<int64_t>(i % 8);
        const bool is_in_box =
            y >= mix.top && y < mix.top + mix.height && x >= mix.left && x < mix.left + mix.width;
        float value = is_in_box ? pixel(partner, i) : pixel(row, i);
        if (mix.lam != 1.0f) value = value * mix.lam + pixel(partner, i) * (1.0f - mix.lam);
        ASSERT_NEAR(value, expected.images[row * values + i], 1e-6f) << row << " " << i;
      }
    }
  }
  EXPECT_GT(boxes, 0);
  EXPECT_GT(shares, 0);
}

TEST(LoaderMixupTest, RefusesWhatCannotBeMixed) {
  const LoaderOptions options = {
      .share = BatchShare::of_rank(0, 2), .pixel_type = PixelType::kUint8, .mixup = kBoth};
  const auto open = [&] {
    Loader(std::make_shared<FakeDataset>(9, 8), crops_and_flips(), options);
  };
  EXPECT_THAT(message_of<ConfigError>(open), HasSubstr("mixup and cutmix of bytes"));
}

TEST(LoaderMixupTest, RepeatsAreAugmentedAnewAndSeenByAllRanks) {
  const LoaderOptions options = {.global_batch_size = 6, .seed = 3, .threads = 2, .num_repeats = 3};
  const auto dataset = std::make_shared<FakeDataset>(24, 8);
  Loader loader(dataset, crops_and_flips(), options);
  EXPECT_EQ(loader.samples_per_epoch(), 24);
  const RepeatedAugmentation repeats(24);
  std::map<int64_t, int64_t> counts;
  const auto pipeline = std::get<0>(crops_and_flips());
  TransformScratch scratch;
  for (int64_t step = 0; step < 4; ++step) {
    const Batch batch = loader.next();
    for (int64_t row = 0; row < 6; ++row) {
      const int64_t index = batch.indices[static_cast<size_t>(row)];
      const int64_t repeat = counts[index]++;
      EXPECT_EQ(repeat, repeats.repeat(step * 6 + row));
      Sample sample;
      dataset->read(index, sample);
      std::vector<float> expected(kPixels);
      pipeline->apply(sample.image(), repeated_augmentation_stream(3, 0, index, repeat),
                      std::span<float>(expected), scratch);
      const auto found = row_of(batch.images, 6, row);
      EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin()));
    }
  }
  EXPECT_EQ(counts.size(), 8u);  // a third of the samples, three times each
  const LoaderOptions sets = {.num_repeats = 2, .mix = {.set_sizes = {12, 12}}};
  const std::vector<SampleTransforms> two = {crops_and_flips(), crops_and_flips()};
  EXPECT_THAT(message_of<ConfigError>([&] { Loader(dataset, two, sets); }),
              HasSubstr("repeated augmentation of a mix"));
}

// Images whose mask is their pixels' class.
class Scenes : public FakeDataset {
 public:
  Scenes() : FakeDataset(12, 8) {}
  bool has_masks() const override { return true; }
  void read(int64_t index, Sample& sample) const override {
    FakeDataset::read(index, sample);
    sample.mask.size = {1, 8, 8};
    sample.mask.classes.assign(sample.image().pixels.begin(), sample.image().pixels.end());
  }
};

TEST(LoaderMixupTest, MasksOfImagesFollowThePixels) {
  const auto transforms = std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{{RandomCropConfig{.size = {8}, .padding = {3}}},
                                   {HorizontalFlipConfig{}}},
      1);
  Loader loader(std::make_shared<Scenes>(), transforms, {.global_batch_size = 12, .threads = 2});
  const Batch batch = loader.next();
  EXPECT_EQ(batch.image_shape, (std::vector<int64_t>{12, 1, 8, 8}));
  ASSERT_EQ(batch.masks.size(), 12u * kPixels);
  int64_t labelled = 0;
  for (size_t i = 0; i < batch.masks.size(); ++i) {
    if (batch.masks[i] < 0) {
      EXPECT_EQ(batch.images[i], 0.0f);  // padding has no class
      continue;
    }
    labelled += 1;
    EXPECT_EQ(batch.masks[i], std::lround(batch.images[i] * 255));
  }
  EXPECT_GT(labelled, 300);
}

// What volumes a model of images can take, and the other way round.
class Slices : public FakeDataset {
 public:
  explicit Slices(int64_t depth) : FakeDataset(4, 8), depth_(depth) {}
  SampleForm form() const override { return SampleForm::kVolume; }
  void read(int64_t index, Sample& sample) const override {
    sample.become<Volume>() = {1, {depth_, 8, 8}, {1, 1, 1}, std::vector<float>(depth_ * 64, 0.5f)};
    sample.label = index;
  }

 private:
  int64_t depth_;
};

TEST(LoaderMixupTest, SidesAreThoseOfTheModel) {
  const auto volumes =
      std::make_shared<const VolumePipeline>(std::vector<VolumeTransformConfig>{}, 1);
  const auto shape_of = [&](int64_t depth, int dims) {
    Loader loader(std::make_shared<Slices>(depth), volumes,
                  {.global_batch_size = 2, .threads = 0, .spatial_dims = dims});
    return loader.next().image_shape;
  };
  EXPECT_EQ(shape_of(1, 2), (std::vector<int64_t>{2, 1, 8, 8}));
  EXPECT_EQ(shape_of(1, 3), (std::vector<int64_t>{2, 1, 1, 8, 8}));
  EXPECT_EQ(shape_of(4, 3), (std::vector<int64_t>{2, 1, 4, 8, 8}));
  EXPECT_THAT(message_of<ConfigError>([&] { shape_of(4, 2); }),
              HasSubstr("fake[0] is a volume of 4x8x8"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                Loader(std::make_shared<FakeDataset>(4, 8), crops_and_flips(),
                       {.global_batch_size = 2, .spatial_dims = 3});
              }),
              HasSubstr("takes volumes [D, H, W], but fake[0] is an image"));
}

}  // namespace
}  // namespace fovea::data
