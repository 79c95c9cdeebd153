#include <ATen/ops/allclose.h>
#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/config/config.h"
#include "fovea/data/datasets/file_list.h"
#include "fovea/data/image/png.h"
#include "fovea/data/large_image/tiff.h"
#include "fovea/data/transforms/image/center_crop.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/resize.h"
#include "fovea/inference/predict_large_windows.h"
#include "fovea/inference/predictor.h"
#include "tests/train/model_cases.h"

namespace fovea::inference {
namespace {

using ::testing::HasSubstr;
using train::testing::Folder;

constexpr int64_t kHeight = 43, kWidth = 61, kWindow = 16;

data::Image picture() {
  data::Image image{kHeight, kWidth, 1, {}};
  for (int64_t i = 0; i < kHeight * kWidth; ++i) {
    image.pixels.push_back(static_cast<uint8_t>((i % kWidth) * 7 + (i / kWidth) * 13 + i % 5));
  }
  return image;
}

models::VitConfig small_vit() {
  models::VitConfig vit;
  train::testing::set_encoder(vit, {kWindow}, 4);
  vit.num_classes = 3;
  return vit;
}

models::UnetrConfig small_unetr() {
  auto unetr = train::testing::tiny_unetr_config();
  unetr.encoder.vit.img_size = {kWindow};
  unetr.num_classes = 3;
  return unetr;
}

// The model before its first step, and the image as a file and as a large one.
class PredictLargeTest : public ::testing::Test {
 protected:
  Predictor load(const models::ModelConfig& model, const train::TaskConfig& task,
                 std::vector<data::AnyTransformConfig> transforms) {
    auto config = train::testing::tiny_config(folder_);
    config.model = model;
    config.task = task;
    config.data.val = {
        data::FileListConfig{.path = "none.csv", .transforms = std::move(transforms)}};
    const auto path = folder_.file("recipe.yaml");
    std::ofstream(path) << dump_config(config);
    train::InferenceOptions options;
    options.device = "cpu";
    ::testing::internal::CaptureStderr();
    Predictor predictor(path, options);
    ::testing::internal::GetCapturedStderr();
    return predictor;
  }

  // What `predict` has written by the end of it.
  template <class Predict>
  std::vector<uint8_t> mask_of(int64_t num_classes, const Predict& predict) {
    const auto path = folder_.file("mask.tif");
    data::MaskWriter mask(path, {.size = {kHeight, kWidth}, .num_classes = num_classes});
    predict(mask);
    mask.finish();
    const auto written = data::open_tiff(path);
    std::vector<uint8_t> classes(static_cast<size_t>(kHeight * kWidth));
    written->read({0, 0, {kHeight, kWidth}}, classes);
    return classes;
  }

  Folder folder_;
  data::ImageSource image_{"large.tif", picture()};
  std::vector<data::AnyTransformConfig> normalize_ = {
      {data::NormalizeConfig{.mean = {0.4}, .std = {0.2}}}};
};

TEST_F(PredictLargeTest, MasksAreThoseInMemory) {
  const auto unetr = small_unetr();
  train::SegmentationConfig task;
  for (const char* blend : {"gaussian", "constant"}) {
    task.sliding_window = {.overlap = 0.4, .blend = blend, .batch_size = 3};
    const auto predictor = load({unetr}, {task}, normalize_);
    const auto png = data::encode_png(picture());
    auto in_memory = predictor.masks({Input{EncodedInput{.bytes = png}}});
    const auto& expected = in_memory.front().get().classes.classes;
    const auto classes = mask_of(3, [&](data::MaskWriter& mask) {
      int64_t told = 0;
      predict_large_masks(predictor.loaded(), image_, mask,
                          [&](int64_t done, int64_t total) { told = done == total ? done : 0; });
      EXPECT_GT(told, 20);
    });
    EXPECT_TRUE(std::equal(classes.begin(), classes.end(), expected.begin(), expected.end()));
    EXPECT_GT(std::count(classes.begin(), classes.end(), classes.front()), 0);
    EXPECT_LT(std::count(classes.begin(), classes.end(), classes.front()), std::ssize(classes));
  }
}

// Each window is what the model says of that part as an image of its own.
TEST_F(PredictLargeTest, ClassesAndFeaturesAreThoseOfTheWindows) {
  const auto predictor = load({small_vit()}, {train::ClassificationConfig{}},
                              {{data::ResizeConfig{.size = {20}}},
                               {data::CenterCropConfig{.size = {kWindow}}},
                               normalize_.front()});
  at::Tensor scores;
  const auto classes = mask_of(3, [&](data::MaskWriter& mask) {
    scores = predict_large_classes(predictor.loaded(), image_, mask);
  });
  const auto features = predict_large_features(predictor.loaded(), image_);
  ASSERT_EQ(scores.sizes(), (at::IntArrayRef{3, 4, 3}));
  ASSERT_EQ(features.sizes().slice(0, 2), (at::IntArrayRef{3, 4}));
  for (const int64_t row : {0, 2}) {
    for (const int64_t column : {0, 1, 3}) {
      const int64_t top = row == 2 ? kHeight - kWindow : row * kWindow;
      const int64_t left = column == 3 ? kWidth - kWindow : column * kWindow;
      std::vector<float> values;
      const auto whole = picture();
      for (int64_t y = top; y < top + kWindow; ++y) {
        for (int64_t x = left; x < left + kWindow; ++x) {
          const float pixel = whole.pixels[static_cast<size_t>(y * kWidth + x)];
          values.push_back((pixel / 255.0f - 0.4f) / 0.2f);
        }
      }
      const auto window =
          at::from_blob(values.data(), {1, 1, kWindow, kWindow}, at::kFloat).clone();
      auto own = predictor.classes({Input{window[0]}});
      EXPECT_TRUE(at::allclose(own.front().get().scores, scores[row][column], 1e-5, 1e-6));
      const auto best = scores[row][column].argmax().item<int64_t>();
      EXPECT_EQ(classes[static_cast<size_t>((top + kWindow - 1) * kWidth + left + kWindow - 1)],
                best);
    }
  }
}

TEST_F(PredictLargeTest, WhatWindowsCannotDoIsRefused) {
  const auto unetr = small_unetr();
  const auto message_of = [&](const Predictor& predictor, const data::RegionSource& image) {
    std::string message;
    try {
      mask_of(
          3, [&](data::MaskWriter& mask) { predict_large_masks(predictor.loaded(), image, mask); });
    } catch (const Error& error) {
      message = error.what();
    }
    return message;
  };
  const auto scaled = load({unetr}, {train::SegmentationConfig{}},
                           {{data::ResizeConfig{.size = {32, 32}}}, normalize_.front()});
  EXPECT_THAT(message_of(scaled, image_), HasSubstr("large.tif: data.val has a transform"));
  const auto plain = load({unetr}, {train::SegmentationConfig{}}, normalize_);
  EXPECT_THAT(
      message_of(plain, data::ImageSource("small.tif", {8, 40, 1, std::vector<uint8_t>(320)})),
      HasSubstr("small.tif: 40 x 8 pixels, fewer than a window"));
  EXPECT_THAT(
      message_of(plain, data::ImageSource("two.tif", {20, 20, 2, std::vector<uint8_t>(800)})),
      HasSubstr("two.tif: an image of 2 channels"));
}

}  // namespace
}  // namespace fovea::inference
