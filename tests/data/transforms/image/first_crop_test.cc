#include "fovea/data/transforms/image/first_crop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "fovea/data/image/decode.h"
#include "fovea/data/order/augmentation_stream.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/pixel_writer.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/data/transforms/image/vertical_flip.h"
#include "tests/data/jpeg_writer.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::JpegOptions;
using testing::message_of;
using testing::write_jpeg;

// Every kind of file that libjpeg treats on its own: subsampling, scans, colours, odd sizes.
std::vector<std::vector<uint8_t>> all_files() {
  std::vector<std::vector<uint8_t>> files;
  for (const auto& name : golden_names("file")) {
    if (name[1].rfind("jpeg", 0) == 0) files.push_back(golden("file." + name[1]).bytes);
  }
  for (const ImageSize size : {ImageSize{97, 131}, {64, 96}, {1, 40}, {33, 1}, {120, 83}}) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
      for (const bool is_progressive : {false, true}) {
        files.push_back(write_jpeg(
            size,
            {.horizontal_sampling = h, .vertical_sampling = v, .is_progressive = is_progressive}));
      }
    }
    files.push_back(write_jpeg(size, {.channels = 1}));
    files.push_back(write_jpeg(size, {.channels = 4}));
  }
  return files;
}

Image to_channels(const Image& image, int64_t channels) {
  const TransformPipeline convert({}, channels);
  TransformScratch scratch;
  Image result = {image.height, image.width, channels, {}};
  result.pixels =
      testing::pixels_of(convert.apply_to_pixels(image, augmentation_stream(1, 0, 0), scratch));
  return result;
}

// Boxes at every place in question: borders, single pixels, block borders and their neighbours.
std::vector<PixelBox> boxes_in(ImageSize size, uint64_t seed) {
  std::vector<PixelBox> boxes = {
      {0, 0, size}, {size.height - 1, size.width - 1, {1, 1}}, {0, 0, {1, 1}}};
  RandomStream random(philox_key(seed, "boxes"), 0);
  const auto below = [&](int64_t count) {
    return int64_t{random.below(static_cast<uint32_t>(count))};
  };
  for (int i = 0; i < 40; ++i) {
    PixelBox box;
    box.size = {1 + below(size.height), 1 + below(size.width)};
    box.top = below(size.height - box.size.height + 1);
    box.left = below(size.width - box.size.width + 1);
    if (i % 3 == 0) {  // where a block starts
      box.top = box.top / 8 * 8;
      box.left = box.left / 8 * 8;
    }
    boxes.push_back(box);
  }
  return boxes;
}

std::vector<uint8_t> crop_of_file(const FirstCrop& crop, int64_t channels,
                                  const std::vector<uint8_t>& file, FirstCropScratch& scratch) {
  Image out;
  reshape(out, crop.window.size, channels);
  ImageSink sink(out);
  scratch.reader.open(file);
  crop_jpeg(crop, channels, scratch, sink);
  return out.pixels;
}

TEST(FirstCropTest, RegionsAreThoseOfTheWholeImage) {
  FirstCropScratch scratch;
  int64_t compared = 0;
  for (const auto& file : all_files()) {
    Image whole;
    decode_jpeg(file, whole);
    for (const int64_t channels : {1, 3}) {
      const Image expected = to_channels(whole, channels);
      for (const PixelBox& box : boxes_in({whole.height, whole.width}, file.size())) {
        const FirstCrop crop = {.box = box, .resized = box.size, .window = {0, 0, box.size}};
        const auto view = ImageView(expected).crop(box.top, box.left, box.size);
        ASSERT_EQ(crop_of_file(crop, channels, file, scratch), testing::pixels_of(view))
            << "file " << compared / 86 << ": " << box.top << " " << box.left << " "
            << box.size.height << "x" << box.size.width << " of " << whole.height << "x"
            << whole.width;
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, 74 * 2 * 43);
}

std::vector<float> floats_of(const TransformPipeline& pipeline, const Image& image,
                             RandomStream random) {
  const auto size = pipeline.output_size(ImageSize{image.height, image.width}).value();
  std::vector<float> out(static_cast<size_t>(pipeline.in_chans() * size.height * size.width));
  TransformScratch scratch;
  // Without the fused path: pixels first, then each through the table.
  const ImageView view = pipeline.apply_to_pixels(image, random, scratch);
  const PixelWriter writer({.mean = {0.4}, .std = {0.3}}, pipeline.in_chans());
  for (int64_t y = 0; y < view.height; ++y) {
    writer.write_row(view.row(y), y, size,
                     {.floats = out.data(), .size = static_cast<int64_t>(out.size())});
  }
  return out;
}

// Training and evaluation from files against the transforms one after the other on decoded images.
TEST(FirstCropTest, FilesGiveWhatDecodedImagesGive) {
  const NormalizeConfig normalize = {.mean = {0.4}, .std = {0.3}};
  int64_t compared = 0;
  TransformScratch scratch;
  for (const char* interpolation : {"nearest", "bilinear", "bicubic"}) {
    const RandomResizedCropConfig random_crop = {
        .size = {21, 19}, .interpolation = interpolation, .scaled_decode = false};
    const ResizeConfig resize = {.size = {40}, .interpolation = interpolation};
    const CenterCropConfig center = {.size = {31, 23}};
    const std::vector<std::vector<TransformConfig>> lists = {
        {{random_crop}, {HorizontalFlipConfig{}}, {normalize}},
        {{random_crop}, {VerticalFlipConfig{}}, {HorizontalFlipConfig{}}, {normalize}},
        {{resize}, {center}, {normalize}},
        {{ResizeConfig{.size = {25, 27}, .interpolation = interpolation}}, {normalize}},
        {{center}, {HorizontalFlipConfig{}}, {normalize}}};
    for (const auto& file : all_files()) {
      Image whole;
      decode_jpeg(file, whole);
      // A strip is enlarged to thousands of pixels by the resize of its shorter edge.
      if (std::min(whole.height, whole.width) < 8) continue;
      for (const auto& list : lists) {
        for (const int64_t in_chans : {1, 3}) {
          const TransformPipeline pipeline(list, in_chans);
          const RandomStream random = augmentation_stream(5, 0, compared++);
          const auto expected = floats_of(pipeline, whole, random);
          std::vector<float> out(expected.size());
          pipeline.apply_file(file, random, std::span<float>(out), scratch);
          ASSERT_EQ(out, expected);
          pipeline.apply(whole, random, std::span<float>(out), scratch);
          ASSERT_EQ(out, expected);
        }
      }
    }
  }
  EXPECT_EQ(compared, 3 * 5 * 2 * 50);
}

// Mean difference of a scaled decode to the exact result, in grey levels.
double scaled_difference(const std::vector<uint8_t>& file, FirstCrop crop,
                         FirstCropScratch& scratch) {
  crop.may_scale = false;
  const auto exact = crop_of_file(crop, 3, file, scratch);
  crop.may_scale = true;
  const auto scaled = crop_of_file(crop, 3, file, scratch);
  EXPECT_NE(exact, scaled);
  double sum = 0;
  for (size_t i = 0; i < exact.size(); ++i) sum += std::abs(exact[i] - scaled[i]);
  return sum / static_cast<double>(exact.size());
}

// On slopes of a third of a level a pixel: a place that is wrong by half a scaled pixel shows.
TEST(FirstCropTest, ScaledDecodingKeepsPlacesInEveryOrientation) {
  FirstCropScratch scratch;
  for (uint8_t orientation = 1; orientation <= 8; ++orientation) {
    const auto file = write_jpeg({301, 403}, {.is_smooth = true, .orientation = orientation});
    for (const int64_t side : {10, 30, 60, 90}) {
      FirstCrop crop = {.box = {37, 51, {250, 240}},
                        .resized = {side, side},
                        .window = {0, 0, {side, side}},
                        .may_scale = true};
      EXPECT_EQ(scaled_decode_denominator(crop), side <= 30 ? 8 : side == 60 ? 4 : 2);
      EXPECT_LT(scaled_difference(file, crop, scratch), 0.7) << int{orientation} << " " << side;
    }
  }
}

TEST(FirstCropTest, ScaledDecodingIsCloseOnTexture) {
  FirstCropScratch scratch;
  const auto file = write_jpeg({301, 403}, {});
  for (const int64_t side : {10, 30, 60, 90}) {
    const FirstCrop crop = {
        .box = {37, 51, {250, 340}}, .resized = {side, side}, .window = {0, 0, {side, side}}};
    EXPECT_LT(scaled_difference(file, crop, scratch), 4.0) << side;
  }
}

TEST(FirstCropTest, CutFilesAreErrorsWhereverTheCropLies) {
  const std::vector<uint8_t> whole = write_jpeg({97, 131}, {});
  FirstCropScratch scratch;
  const FirstCrop top = {.box = {0, 0, {8, 8}}, .resized = {8, 8}, .window = {0, 0, {8, 8}}};
  for (size_t size = 0; size + 1 < whole.size(); size += 11) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_THROW(crop_of_file(top, 3, cut, scratch), DataError) << size;
  }
  auto longer = whole;
  longer.insert(longer.end(), {'m', 'o', 'r', 'e'});
  EXPECT_EQ(crop_of_file(top, 3, longer, scratch), crop_of_file(top, 3, whole, scratch));
}

TEST(FirstCropTest, BytesAreTheFloatsBeforeNormalize) {
  const std::vector<uint8_t> file = write_jpeg({97, 131}, {});
  const TransformPipeline pipeline({{RandomResizedCropConfig{.size = {37}}}, {NormalizeConfig{}}},
                                   3);
  EXPECT_EQ(pipeline.mean(), std::vector<float>(3, 0.5f));
  EXPECT_EQ(pipeline.std(), std::vector<float>(3, 0.5f));
  TransformScratch scratch;
  std::vector<float> floats(3 * 37 * 37);
  std::vector<uint8_t> bytes(floats.size());
  const RandomStream random = augmentation_stream(1, 0, 0);
  pipeline.apply_file(file, random, std::span<float>(floats), scratch);
  pipeline.apply_file(file, random, std::span<uint8_t>(bytes), scratch);
  for (size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_EQ(floats[i], (static_cast<float>(bytes[i]) / 255.0f - 0.5f) / 0.5f);
  }
}

TEST(FirstCropTest, EveryByteIsNormalisedAsByDivision) {
  std::vector<uint8_t> bytes(3 * 256);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i / 3);
  for (const std::string& name : NormalizeConfig::preset_names()) {
    NormalizeConfig config;
    ASSERT_TRUE(config.apply_preset(name));
    const PixelWriter writer(config, config.mean.size() == 1 ? 1 : 3);
    const auto channels = static_cast<size_t>(writer.channels());
    std::vector<float> out(channels * 256);
    writer.write_row(bytes.data(), 0, {1, 256},
                     {.floats = out.data(), .size = static_cast<int64_t>(out.size())});
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t c = i / 256, x = i % 256;
      ASSERT_EQ(out[i], (static_cast<float>(bytes[x * channels + c]) / 255.0f - writer.mean()[c]) /
                            writer.std()[c])
          << name;
    }
  }
}

}  // namespace
}  // namespace fovea::data
