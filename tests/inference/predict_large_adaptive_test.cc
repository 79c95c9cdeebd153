#include "fovea/inference/predict_large_adaptive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/config/config.h"
#include "fovea/data/image/png.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/inference/predictor.h"
#include "tests/train/model_cases.h"

namespace fovea::inference {
namespace {

using ::testing::HasSubstr;
using train::testing::Folder;

// Of a recipe without any data, at step 0.
Predictor load(const Folder& folder, const std::string& transforms, const std::string& criterion,
               int64_t channels = 3) {
  const auto path = folder.file("recipe.yaml");
  std::ofstream(path) << fmt::format(
      "model: {{name: sap, num_classes: 5, decoder_dim: 8, encoder: {{img_size: 64, patch_size: 8, "
      "fixed_length: 150, in_chans: {}, embed_dim: 16, depth: 2, num_heads: 2}}}}\n"
      "task: {{name: segmentation}}\n"
      "data: {{val: {{format: folder, path: ., transforms: [{}{{name: normalize}}]}},\n"
      "  adaptive_patching: {{fixed_length: 150, patch_size: 8, criterion: {}}}}}\n",
      channels, transforms, criterion);
  train::InferenceOptions options;
  options.device = "cpu";
  ::testing::internal::CaptureStderr();  // that the weights are those before the first step
  Predictor predictor(path, options);
  ::testing::internal::GetCapturedStderr();
  return predictor;
}

// Blocks of several sizes over a slope, with noise in one corner.
data::Image picture(int64_t height, int64_t width, int64_t channels) {
  data::Image image;
  reshape(image, {height, width}, channels);
  RandomStream random({7, 1}, 0);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t i = 0; i < width * channels; ++i) {
      const int64_t x = i / channels;
      const bool is_block = (y / 90 + x / 70) % 5 == 0 || (x < 200 && (y / 9 + x / 11) % 3 == 0);
      auto value = (x + y) / 9 % 90 + (is_block ? 100 + 40 * (i % channels) : 0);
      if (y > 900 && x > 700) value = random.below(256);
      image.pixels[static_cast<size_t>(y * width * channels + i)] = static_cast<uint8_t>(value);
    }
  }
  return image;
}

std::string write_tiff(const Folder& folder, const data::Image& image) {
  const auto path = folder.file("image.tif");
  data::TiffWriter writer(path, {{image.height, image.width}, image.channels});
  writer.write_rows(image.pixels, image.height);
  writer.finish();
  return path;
}

std::vector<uint8_t> classes_of(const std::string& tiff) {
  const auto mask = data::open_tiff(tiff);
  const auto size = mask->format().size;
  std::vector<uint8_t> classes(static_cast<size_t>(size.height * size.width));
  mask->read({0, 0, size}, classes);
  return classes;
}

// Bands of a few rows, so that leaves begin and end in all of them.
TEST(PredictLargeAdaptiveTest, TheMaskIsThatOfTheImageInMemory) {
  for (const char* criterion : {"canny", "variance"}) {
    for (const int64_t channels : {3, 1}) {
      const Folder folder;
      const auto predictor = load(folder, "", criterion);
      const auto image = picture(1024, 1000, channels);
      const auto expected =
          predictor.masks({{EncodedInput{data::encode_png(image)}}}).front().get();
      const auto source = data::open_tiff(write_tiff(folder, image));
      data::MaskWriter mask(folder.file("mask.tif"), {.size = {1024, 1000}, .num_classes = 5});
      std::vector<int64_t> told;  // rows: two walks down the image, and the mask's
      const auto on_progress = [&](int64_t done, int64_t total) {
        EXPECT_EQ(total, 3 * 1024);
        told.push_back(done);
      };
      predict_large_adaptive(predictor.loaded(), *source, mask, on_progress,
                             {.band_bytes = 300'000});
      EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
      EXPECT_LT(told.front(), 512);
      EXPECT_THAT(told, ::testing::IsSupersetOf({1024, 2048, 3072}));
      EXPECT_EQ(told.back(), 3 * 1024);
      mask.finish();
      const auto found = classes_of(folder.file("mask.tif"));
      ASSERT_EQ(found.size(), expected.classes.classes.size());
      int64_t differ = 0;
      for (size_t i = 0; i < found.size(); ++i) differ += found[i] != expected.classes.classes[i];
      EXPECT_EQ(differ, 0) << criterion << " " << channels;
      EXPECT_EQ(mask.pixels_of_classes(), expected.voxels);
      EXPECT_LT(*std::max_element(expected.voxels.begin(), expected.voxels.end()), 1'000'000);
    }
  }
}

TEST(PredictLargeAdaptiveTest, SaysWhatItCannotCut) {
  const Folder folder;
  const auto refused = [&](const Predictor& predictor, const data::RegionSource& image) {
    data::MaskWriter mask(folder.file("mask.tif"), {.size = image.format().size, .num_classes = 5});
    try {
      predict_large_adaptive(predictor.loaded(), image, mask);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no ConfigError");
  };
  const data::ImageSource image("slide", picture(100, 90, 3));
  EXPECT_THAT(refused(load(folder, "{name: resize, size: [64, 64]}, ", "canny"), image),
              HasSubstr("slide: the transforms of data.val make another image of it (resize)"));
  EXPECT_THAT(refused(load(folder, "", "canny", 2), image),
              HasSubstr("slide: an image with 3 channel(s) of uint8 cannot become one with 2"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("mask.tif")));
}

}  // namespace
}  // namespace fovea::inference
