#include "fovea/data/transforms/volume/volume_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/volume/center_spatial_crop.h"
#include "fovea/data/transforms/volume/crop_foreground.h"
#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/rand_affine.h"
#include "fovea/data/transforms/volume/rand_crop_by_pos_neg_label.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/rand_gaussian_noise.h"
#include "fovea/data/transforms/volume/rand_gaussian_smooth.h"
#include "fovea/data/transforms/volume/rand_rotate90.h"
#include "fovea/data/transforms/volume/rand_scale_intensity.h"
#include "fovea/data/transforms/volume/rand_shift_intensity.h"
#include "fovea/data/transforms/volume/rand_spatial_crop.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/transforms/volume/spacing.h"
#include "fovea/data/transforms/volume/spatial_pad.h"
#include "fovea/data/transforms/volume/spatial_resize.h"
#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::golden_sample;
using ::testing::HasSubstr;
using testing::message_of;

RandomStream stream(int64_t index = 0) { return augmentation_stream(1, 0, index); }

struct Output {
  std::vector<float> values;
  std::vector<int32_t> classes;
  bool operator==(const Output&) const = default;
};

Output output_of(const VolumePipeline& pipeline, const Sample& sample, RandomStream random,
                 VolumeScratch& scratch) {
  const VolumeSize size = pipeline.output_size(sample.volume().size).value();
  Output out;
  out.values.resize(static_cast<size_t>(pipeline.in_chans() * size.voxels()));
  out.classes.resize(sample.mask.classes.empty() ? 0 : static_cast<size_t>(size.voxels()));
  pipeline.apply(sample, random, size, out.values, out.classes, scratch);
  return out;
}

std::vector<VolumeTransformConfig> everything() {
  return {{SpacingConfig{.pixdim = {0.9, 1.1, 1.0}}},
          {ScaleIntensityRangeConfig{.a_min = -100, .a_max = 400, .clip = true}},
          {CropForegroundConfig{.threshold = 0.3, .margin = {1}}},
          {SpatialPadConfig{.spatial_size = {9}, .mode = "reflect"}},
          {RandCropByPosNegLabelConfig{.spatial_size = {8, 9, 7}}},
          {RandAffineConfig{.prob = 0.5, .rotate_range = {0.3, 0.3, 0.3}}},
          {RandFlipConfig{.prob = 0.5, .per_axis = true}},
          {SpatialResizeConfig{.spatial_size = {8}, .anti_aliasing = true}},
          {RandRotate90Config{.prob = 0.5, .spatial_axes = {0, 2}}},
          {RandGaussianSmoothConfig{.prob = 0.5}},
          {RandSpatialCropConfig{.roi_size = {6, 7, 5}}},
          {RandGaussianNoiseConfig{.prob = 0.5}},
          {RandShiftIntensityConfig{.prob = 0.5, .channel_wise = true}},
          {RandScaleIntensityConfig{.prob = 0.5}},
          {NormalizeIntensityConfig{.channel_wise = true}}};
}

TEST(VolumePipelineTest, DependsOnSeedEpochAndSampleAlone) {
  const VolumePipeline pipeline(everything(), 2);
  Sample sample = golden_sample("two");
  const Sample before = sample;
  VolumeScratch used;
  std::set<std::vector<float>> results;
  for (int64_t index = 0; index < 20; ++index) {
    VolumeScratch fresh;
    const Output out = output_of(pipeline, sample, stream(index), used);
    EXPECT_EQ(out, output_of(pipeline, sample, stream(index), fresh));
    results.insert(out.values);
  }
  EXPECT_EQ(results.size(), 20u);
  EXPECT_EQ(sample.volume().values, before.volume().values);
  EXPECT_EQ(sample.mask.classes, before.mask.classes);
}

TEST(VolumePipelineTest, SteadyStateKeepsItsBuffers) {
  const VolumePipeline pipeline(everything(), 2);
  const Sample sample = golden_sample("two");
  VolumeScratch scratch;
  for (int64_t index = 0; index < 50; ++index) {
    output_of(pipeline, sample, stream(index), scratch);
  }
  const auto buffers = [&] {
    return std::vector<const void*>{scratch.values[0].data(),  scratch.values[1].data(),
                                    scratch.classes[0].data(), scratch.classes[1].data(),
                                    scratch.row.data(),        scratch.samples[2].low.data()};
  };
  const auto before = buffers();
  for (int64_t index = 0; index < 50; ++index) {
    output_of(pipeline, sample, stream(index), scratch);
  }
  EXPECT_EQ(buffers(), before);
}

TEST(VolumePipelineTest, KnowsTheSizeWhereItCanBeKnown) {
  const auto size_of_list = [](std::vector<VolumeTransformConfig> list,
                               std::optional<VolumeSize> in) {
    return VolumePipeline(std::move(list), 1).output_size(in);
  };
  const VolumeSize in = {10, 20, 30};
  EXPECT_EQ(size_of_list({}, in), in);
  EXPECT_EQ(size_of_list({}, std::nullopt), std::nullopt);
  EXPECT_EQ(size_of_list(everything(), std::nullopt), (VolumeSize{6, 7, 5}));
  const VolumeTransformConfig pad = {SpatialPadConfig{.spatial_size = {16}}};
  const VolumeTransformConfig crop = {CenterSpatialCropConfig{.roi_size = {16}}};
  EXPECT_EQ(size_of_list({pad}, in), (VolumeSize{16, 20, 30}));
  EXPECT_EQ(size_of_list({crop}, in), (VolumeSize{10, 16, 16}));
  EXPECT_EQ(size_of_list({pad, crop}, std::nullopt), (VolumeSize{16, 16, 16}));
  EXPECT_EQ(size_of_list({crop, pad}, std::nullopt), (VolumeSize{16, 16, 16}));
  const VolumeTransformConfig turn = {RandRotate90Config{.spatial_axes = {0, 2}}};
  EXPECT_EQ(size_of_list({turn}, in), std::nullopt);
  EXPECT_EQ(size_of_list({turn}, (VolumeSize{5, 6, 5})), (VolumeSize{5, 6, 5}));
  EXPECT_EQ(size_of_list({{SpacingConfig{.pixdim = {1}}}}, in), std::nullopt);
  EXPECT_EQ(size_of_list({{RandSpatialCropConfig{.roi_size = {4}, .random_size = true}}}, in),
            std::nullopt);
  EXPECT_EQ(size_of_list({{RandAffineConfig{.spatial_size = {8, -1, 8}}}}, in),
            (VolumeSize{8, 20, 8}));
}

TEST(VolumePipelineTest, RefusesValuesThatAreNotFinite) {
  Sample sample = golden_sample("two");
  sample.volume().values[770 + (3 * 11 + 4) * 7 + 5] = std::nanf("");
  sample.volume().values[1500] = std::numeric_limits<float>::infinity();
  VolumeScratch scratch;
  const VolumePipeline pipeline({}, 2);
  const std::string message =
      message_of<DataError>([&] { pipeline.run(sample, stream(), scratch); });
  EXPECT_THAT(message, HasSubstr("2 of 1540 values are NaN or infinite"));
  EXPECT_THAT(message, HasSubstr("in channel 1 at voxel [3, 4, 5]"));
}

TEST(VolumePipelineTest, RefusesSamplesThatDoNotFit) {
  VolumeScratch scratch;
  const VolumePipeline pipeline({}, 1);
  const auto message_for = [&](const Sample& sample) {
    return message_of<DataError>([&] { pipeline.run(sample, stream(), scratch); });
  };
  EXPECT_THAT(message_for(golden_sample("two")), HasSubstr("2 channel(s), but the model takes 1"));
  Sample other_mask = golden_sample("one");
  other_mask.mask = {{1, 1, 2}, {0, 0}};
  EXPECT_THAT(message_for(other_mask), HasSubstr("a mask of 1x1x2 beside a volume of 10x11x7"));
  Sample damaged = golden_sample("one");
  damaged.volume().values.pop_back();
  EXPECT_THAT(message_for(damaged), HasSubstr("769 values for a volume of 1x10x11x7"));
  EXPECT_THROW(VolumePipeline({}, 0), ConfigError);
  EXPECT_THAT(message_of<ConfigError>([] { VolumePipeline({{SpatialResizeConfig{}}}, 1); }),
              HasSubstr("spatial_resize:\n  spatial_size: []; expected one number"));
  std::vector<float> out(770);
  std::vector<int32_t> mask(770);
  Sample no_mask = golden_sample("one");
  no_mask.mask = {};
  EXPECT_THAT(message_of<DataError>([&] {
                pipeline.apply(no_mask, stream(), {10, 11, 7}, out, mask, scratch);
              }),
              HasSubstr("no mask"));
  EXPECT_THAT(message_of<DataError>([&] {
                pipeline.apply(no_mask, stream(), {11, 10, 7}, out, {}, scratch);
              }),
              HasSubstr("10x11x7 voxels after the transforms, expected 11x10x7"));
  EXPECT_THROW(pipeline.apply(no_mask, stream(), {10, 11, 7}, std::span(out).first(7), {}, scratch),
               Error);
}

// An image with its mask goes the same way: depth 1, values from 0 to 1.
TEST(VolumePipelineTest, TakesImages) {
  Sample sample;
  sample.become<Image>() = {2, 3, 2, {0, 51, 10, 20, 30, 40, 50, 60, 70, 80, 255, 102}};
  sample.mask = {{1, 2, 3}, {1, 2, 3, 4, 5, 6}};
  const VolumePipeline pipeline({{RandFlipConfig{.prob = 1, .spatial_axis = {2}}}}, 2);
  VolumeScratch scratch;
  std::vector<float> out(12);
  std::vector<int32_t> mask(6);
  pipeline.apply(sample, stream(), {1, 2, 3}, out, mask, scratch);
  EXPECT_EQ(out[2], 0.0f);
  EXPECT_EQ(out[3], 1.0f);
  EXPECT_EQ(out[8], 51.0f / 255.0f);
  EXPECT_EQ(out[9], 102.0f / 255.0f);
  EXPECT_EQ(mask, (std::vector<int32_t>{3, 2, 1, 6, 5, 4}));
}

}  // namespace
}  // namespace fovea::data
