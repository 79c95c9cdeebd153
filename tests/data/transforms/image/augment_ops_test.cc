#include "fovea/data/transforms/image/augment_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "fovea/data/transforms/image/blur.h"
#include "fovea/data/transforms/image/color_ops.h"
#include "fovea/data/transforms/image/resize_image.h"
#include "fovea/data/transforms/image/transform_scratch.h"
#include "tests/data/augment_support.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::augment_golden;
using testing::augment_golden_names;
using ::testing::HasSubstr;
using testing::message_of;
using testing::pixels_of;

constexpr FillColor kFill = {128, 64, 200};

Interpolation interpolation_of(const std::string& name) {
  return name == "none" ? Interpolation::kNearest : interpolation_from_name(name);
}

struct Difference {
  int largest = 0;
  int64_t count = 0;  // of bytes that differ
};

Difference difference(const std::vector<uint8_t>& found, const std::vector<uint8_t>& expected) {
  EXPECT_EQ(found.size(), expected.size());
  Difference result;
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    const int distance = std::abs(int{found[i]} - int{expected[i]});
    result.largest = std::max(result.largest, distance);
    result.count += distance != 0;
  }
  return result;
}

std::vector<uint8_t> run(AugmentAction action, double arg, Interpolation interpolation,
                         const Image& image) {
  TransformScratch scratch;
  RandomStream random({1, 2}, 3);
  return pixels_of(
      run_augment_action(action, arg, interpolation, kFill, ImageView(image), random, scratch));
}

// Every operation on colour and gray, at several magnitudes. Bilinear and bicubic are float32 here
// and float64 in Pillow: one grey level, in few places. Most are in shifts by tenths of a pixel,
// whose sums are whole numbers that Pillow's rounding errors put just below.
TEST(AugmentOpsTest, GiveTimmsPixels) {
  const auto names = augment_golden_names("op");
  EXPECT_EQ(names.size(), 130u);
  int64_t smooth_bytes = 0, smooth_faults = 0;
  for (const auto& name : names) {  // op, image, operation, interpolation, number
    const double arg = augment_golden("args." + name[2]).values<double>().at(std::stoull(name[4]));
    const std::string key = "op." + name[1] + "." + name[2] + "." + name[3] + "." + name[4];
    const auto found = run(augment_op_kind(name[2]).action, arg, interpolation_of(name[3]),
                           augment_golden("image." + name[1]).image());
    const auto& expected = augment_golden(key).bytes;
    const bool is_smooth = name[3] == "bilinear" || name[3] == "bicubic";
    const Difference found_difference = difference(found, expected);
    EXPECT_LE(found_difference.largest, is_smooth ? 1 : 0) << key;
    if (!is_smooth) continue;
    smooth_bytes += static_cast<int64_t>(expected.size());
    smooth_faults += found_difference.count;
  }
  EXPECT_LE(smooth_faults * 500, smooth_bytes);
}

TEST(AugmentOpsTest, LevelsBecomeTimmsArguments) {
  const auto levels = augment_golden("levels").values<double>();
  AugmentHparams hparams;
  hparams.translate_const = 100;
  int compared = 0;
  for (const auto& kind : augment_op_kinds()) {
    if (kind.rule == LevelRule::kNone) continue;
    const auto expected = augment_golden("level." + std::string(kind.name)).values<double>();
    for (size_t i = 0; i < levels.size(); ++i) {
      for (const bool is_negated : {false, true}) {
        EXPECT_DOUBLE_EQ(level_to_arg(kind.rule, levels[i], is_negated, hparams),
                         expected[2 * i + (is_negated ? 1 : 0)])
            << kind.name << " at " << levels[i];
        ++compared;
      }
    }
    EXPECT_EQ(has_direction(kind.rule), expected[2] != expected[3]) << kind.name;
  }
  EXPECT_EQ(compared, 24 * 12 * 2);
}

TEST(AugmentOpsTest, KnowTimmsNames) {
  const auto& text = augment_golden("names").bytes;
  std::string names;
  for (const auto& kind : augment_op_kinds()) {
    if (!names.empty()) names += " ";
    names += kind.name;
  }
  EXPECT_EQ(names, std::string(text.begin(), text.end()));
  EXPECT_THAT(message_of<ConfigError>([] { augment_op_kind("Cutout"); }), HasSubstr("Cutout"));
}

TEST(AugmentOpsTest, WorkOnWindowsAndTurnedRows) {
  const Image image = augment_golden("image.rgb").image();
  const ImageView window = ImageView(image).crop(2, 3, {11, 17});
  Image copy;
  copy_image(window, copy);
  ImageView turned = ImageView(copy);
  turned.pixels = turned.row(turned.height - 1);
  turned.row_stride = -turned.row_stride;
  Image turned_copy;
  copy_image(turned, turned_copy);
  TransformScratch scratch;
  RandomStream random({1, 2}, 3);
  for (const auto& kind : augment_op_kinds()) {
    if (kind.action == AugmentAction::kGaussianBlurRand) continue;
    const double arg = level_to_arg(kind.rule, 7, true, {});
    for (const auto interpolation :
         {Interpolation::kNearest, Interpolation::kBilinear, Interpolation::kBicubic}) {
      const auto of_view = pixels_of(
          run_augment_action(kind.action, arg, interpolation, kFill, window, random, scratch));
      EXPECT_EQ(of_view, run(kind.action, arg, interpolation, copy)) << kind.name;
      const auto of_turned = pixels_of(
          run_augment_action(kind.action, arg, interpolation, kFill, turned, random, scratch));
      EXPECT_EQ(of_turned, run(kind.action, arg, interpolation, turned_copy)) << kind.name;
    }
  }
}

TEST(AugmentOpsTest, TinyImagesAreSafe) {
  for (const int64_t channels : {1, 3}) {
    for (const auto& [height, width] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 9}, {7, 1}, {2, 2}, {3, 4}}) {
      Image image;
      reshape(image, {height, width}, channels);
      for (size_t i = 0; i < image.pixels.size(); ++i) {
        image.pixels[i] = static_cast<uint8_t>(37 * i);
      }
      for (const auto& kind : augment_op_kinds()) {
        for (const auto interpolation :
             {Interpolation::kNearest, Interpolation::kBilinear, Interpolation::kBicubic}) {
          const double arg = level_to_arg(kind.rule, 10, false, {});
          EXPECT_EQ(run(kind.action, arg, interpolation, image).size(), image.pixels.size());
        }
      }
    }
  }
}

TEST(AugmentOpsTest, FlatImagesStayFlatInside) {
  Image image;
  reshape(image, {40, 44}, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{200});
  for (const char* name : {"Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"}) {
    const auto& kind = augment_op_kind(name);
    for (double level = 0.1; level < 10; level += 0.37) {
      const double arg = level_to_arg(kind.rule, level, false, {});
      for (const auto interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
        TransformScratch scratch;
        RandomStream random({1, 2}, 3);
        const auto pixels = pixels_of(run_augment_action(
            kind.action, arg, interpolation, {200, 200, 200}, ImageView(image), random, scratch));
        EXPECT_EQ(pixels, image.pixels) << name << " " << level;
      }
    }
  }
}

TEST(AugmentOpsTest, RefusesOtherChannels) {
  Image image;
  reshape(image, {4, 4}, 4);
  for (const auto action : {AugmentAction::kRotate, AugmentAction::kColor}) {
    EXPECT_THAT(message_of<DataError>([&] { run(action, 0.5, Interpolation::kBilinear, image); }),
                HasSubstr("4 channels; expected 1 or 3"));
  }
}

TEST(ColorOpsTest, HueGivesTorchvisionsPixels) {
  const auto hues = augment_golden("args.hue").values<double>();
  const auto names = augment_golden_names("hue");
  EXPECT_EQ(names.size(), 12u);
  for (const auto& name : names) {
    Image out;
    const Image in = augment_golden("image." + name[1]).image();
    adjust_hue(ImageView(in), hues.at(std::stoull(name[2])), out);
    EXPECT_EQ(out.pixels, augment_golden("hue." + name[1] + "." + name[2]).bytes)
        << name[1] << " " << name[2];
  }
  EXPECT_THROW(adjust_hue(ImageView(), 0.6, *std::make_unique<Image>()), Error);
}

TEST(ColorOpsTest, GrayscaleGivesTorchvisionsPixels) {
  Image out;
  const Image in = augment_golden("image.rgb").image();
  to_grayscale(ImageView(in), out);
  EXPECT_EQ(out.pixels, augment_golden("grayscale").bytes);
}

TEST(ColorOpsTest, TablesOfEachChannel) {
  Image in;
  reshape(in, {2, 3}, 2);
  for (size_t i = 0; i < in.pixels.size(); ++i) in.pixels[i] = static_cast<uint8_t>(10 * i);
  const std::vector<ByteTable> tables = {invert_table(), solarize_table(256)};
  Image out;
  apply_tables(ImageView(in), tables, out);
  EXPECT_EQ(out.pixels,
            (std::vector<uint8_t>{255, 10, 235, 30, 215, 50, 195, 70, 175, 90, 155, 110}));
  EXPECT_THROW(apply_tables(ImageView(in), std::vector<ByteTable>(3), out), Error);
  EXPECT_THROW(posterize_table(9), Error);
}

// float32 sums in another order than torch's: one grey level where a sum is close to a half.
TEST(BlurTest, TheKernelGivesTorchvisionsPixels) {
  const auto names = augment_golden_names("blur_kernel");
  EXPECT_EQ(names.size(), 6u);
  BlurScratch scratch;
  for (const auto& name : names) {  // blur_kernel, image, size, 10 sigma
    Image out;
    const Image in = augment_golden("image." + name[1]).image();
    gaussian_blur_kernel(ImageView(in), std::stoll(name[2]), std::stod(name[3]) / 10, out, scratch);
    const auto& expected =
        augment_golden("blur_kernel." + name[1] + "." + name[2] + "." + name[3]).bytes;
    const Difference found = difference(out.pixels, expected);
    EXPECT_LE(found.largest, 1);
    EXPECT_LE(found.count, 2) << name[1] << " " << name[2] << " " << name[3];
  }
}

TEST(BlurTest, RefusesWhatItCannotMirror) {
  Image in, out;
  reshape(in, {11, 30}, 3);
  BlurScratch scratch;
  EXPECT_THAT(
      message_of<DataError>([&] { gaussian_blur_kernel(ImageView(in), 23, 1.0, out, scratch); }),
      HasSubstr("11x30 pixels is too small for a blur with a kernel of 23"));
  EXPECT_THROW(gaussian_blur_kernel(ImageView(in), 4, 1.0, out, scratch), Error);
}

}  // namespace
}  // namespace fovea::data
