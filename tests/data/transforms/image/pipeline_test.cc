#include "fovea/data/transforms/image/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pad.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/vertical_flip.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<float> pipeline_floats(const TransformPipeline& pipeline, const Image& image,
                                   RandomStream random) {
  const auto size = pipeline.output_size(ImageSize{image.height, image.width}).value();
  std::vector<float> out(static_cast<size_t>(pipeline.in_chans() * size.height * size.width));
  TransformScratch scratch;
  pipeline.apply(image, random, out, scratch);
  return out;
}

NormalizeConfig preset(const std::string& name) {
  NormalizeConfig config;
  EXPECT_TRUE(config.apply_preset(name));
  return config;
}

TEST(PipelineTest, NormalisesToTorchvisionsFloats) {
  const TransformPipeline pipeline({{preset("imagenet")}}, 3);
  EXPECT_EQ(pipeline_floats(pipeline, golden("image.rgb").image(), augmentation_stream(1, 0, 0)),
            golden("normalize.imagenet").values<float>());
}

TEST(PipelineTest, WithoutNormalizeBytesBecomeZeroToOne) {
  const TransformPipeline pipeline({}, 1);
  EXPECT_EQ(pipeline_floats(pipeline, {1, 3, 1, {0, 51, 255}}, augmentation_stream(1, 0, 0)),
            (std::vector<float>{0.0f, 51.0f / 255.0f, 1.0f}));
}

TEST(PipelineTest, ConvertsChannelsAsPillowDoes) {
  TransformScratch scratch;
  const Image rgb = golden("image.rgb").image();
  const TransformPipeline to_gray({}, 1);
  EXPECT_EQ(testing::pixels_of(to_gray.apply_to_pixels(rgb, augmentation_stream(1, 0, 0), scratch)),
            golden("to_gray").bytes);
  const TransformPipeline to_colour({}, 3);
  const Image gray = {1, 2, 1, {7, 9}};
  EXPECT_EQ(
      testing::pixels_of(to_colour.apply_to_pixels(gray, augmentation_stream(1, 0, 0), scratch)),
      (std::vector<uint8_t>{7, 7, 7, 9, 9, 9}));
  const TransformPipeline five({}, 5);
  EXPECT_THAT(message_of<DataError>(
                  [&] { five.apply_to_pixels(gray, augmentation_stream(1, 0, 0), scratch); }),
              HasSubstr("1 channel(s) cannot become one with 5"));
}

// Each transform reads what the one before wrote, through two buffers.
TEST(PipelineTest, AppliesInOrder) {
  const Image in = {1, 2, 1, {10, 20}};
  const TransformPipeline pipeline({{PadConfig{.padding = {1, 0, 0, 0}, .fill = 1}},
                                    {HorizontalFlipConfig{.p = 1}},
                                    {PadConfig{.padding = {1, 0, 0, 0}, .fill = 2}},
                                    {VerticalFlipConfig{.p = 1}},
                                    {HorizontalFlipConfig{.p = 1}}},
                                   3);
  TransformScratch scratch;
  const ImageView view = pipeline.apply_to_pixels(in, augmentation_stream(1, 0, 0), scratch);
  EXPECT_EQ(testing::pixels_of(view),
            (std::vector<uint8_t>{1, 1, 1, 10, 10, 10, 20, 20, 20, 2, 2, 2}));
}

TEST(PipelineTest, AugmentationDependsOnSeedEpochAndSample) {
  const TransformPipeline pipeline(
      {{RandomResizedCropConfig{.size = {16}}}, {HorizontalFlipConfig{}}}, 3);
  const Image in = golden("image.rgb").image();
  std::set<std::vector<float>> results;
  for (const uint64_t seed : {1, 2}) {
    for (const int64_t epoch : {0, 1}) {
      for (const int64_t index : {0, 1}) {
        const auto floats = pipeline_floats(pipeline, in, augmentation_stream(seed, epoch, index));
        EXPECT_EQ(floats, pipeline_floats(pipeline, in, augmentation_stream(seed, epoch, index)));
        results.insert(floats);
      }
    }
  }
  EXPECT_EQ(results.size(), 8u);
}

TEST(PipelineTest, RefusesListsThatCannotWork) {
  EXPECT_THAT(message_of<ConfigError>([] {
                TransformPipeline({{NormalizeConfig{}}, {ResizeConfig{}}}, 3);
              }),
              HasSubstr("normalize is number 1 of 2"));
  EXPECT_THAT(message_of<ConfigError>([] { TransformPipeline({{preset("imagenet")}}, 1); }),
              HasSubstr("normalize.mean has 3 values"));
  EXPECT_THROW(TransformPipeline({}, 0), Error);
  const TransformPipeline pipeline({}, 1);
  std::vector<float> wrong_room(5);
  TransformScratch scratch;
  EXPECT_THROW(pipeline.apply({1, 2, 1, {1, 2}}, augmentation_stream(1, 0, 0), wrong_room, scratch),
               Error);
}

TEST(TransformConfigsTest, ReportBadValues) {
  const auto issues_of = [](const auto& config) {
    ConfigIssues issues;
    config.validate(issues);
    return issues.all().size();
  };
  EXPECT_EQ(issues_of(RandomResizedCropConfig{}), 0u);
  EXPECT_EQ(issues_of(RandomResizedCropConfig{
                .size = {1, 2, 3}, .scale = {1.0, 0.5}, .ratio = {0.0, 1.0}}),
            3u);
  EXPECT_EQ(issues_of(ResizeConfig{.size = {0}}), 1u);
  EXPECT_EQ(issues_of(CenterCropConfig{.size = {}}), 1u);
  EXPECT_EQ(issues_of(RandomCropConfig{.size = {-1}, .padding = {1, 2, 3}}), 2u);
  EXPECT_EQ(issues_of(PadConfig{.padding = {-1}}), 1u);
  EXPECT_EQ(issues_of(NormalizeConfig{.mean = {}, .std = {0.0}}), 2u);
}

TEST(TransformConfigsTest, NamedStatistics) {
  EXPECT_EQ(preset("imagenet").mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_EQ(preset("inception").std, (std::vector<double>{0.5, 0.5, 0.5}));
  for (const auto& name : NormalizeConfig::preset_names()) EXPECT_FALSE(preset(name).mean.empty());
  EXPECT_FALSE(NormalizeConfig().apply_preset("imagenette"));
}

}  // namespace
}  // namespace fovea::data
