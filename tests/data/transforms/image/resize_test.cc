#include <gtest/gtest.h>

#include "fovea/data/transforms/image/resize_image.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;

// Pillow's own bytes, up and down, by two channels and three filters.
TEST(ResizeTest, GivesPillowsBytes) {
  const auto names = golden_names("resize");
  EXPECT_EQ(names.size(), 48u);
  ResizeScratch scratch;
  Image out;
  for (const auto& name : names) {
    const auto size = testing::sizes_in(name[3]);
    const Image in = golden("image." + name[1]).image();
    resize(ImageView(in), {size[0], size[1]}, interpolation_from_name(name[2]), out, scratch);
    const auto& expected = golden("resize." + name[1] + "." + name[2] + "." + name[3]);
    EXPECT_EQ(out.pixels, expected.bytes) << name[1] << " " << name[2] << " " << name[3];
  }
}

// The general loop and the two special ones agree: gray planes, stacked as five channels.
TEST(ResizeTest, EveryNumberOfChannelsGivesTheSame) {
  const Image gray = golden("image.gray").image();
  Image stacked = {gray.height, gray.width, 5, {}};
  for (const uint8_t pixel : gray.pixels) stacked.pixels.insert(stacked.pixels.end(), 5, pixel);
  for (const auto interpolation :
       {Interpolation::kNearest, Interpolation::kBilinear, Interpolation::kBicubic}) {
    ResizeScratch scratch;
    Image expected, out;
    resize(ImageView(gray), {19, 61}, interpolation, expected, scratch);
    resize(ImageView(stacked), {19, 61}, interpolation, out, scratch);
    ASSERT_EQ(out.pixels.size(), expected.pixels.size() * 5);
    for (size_t i = 0; i < out.pixels.size(); ++i) ASSERT_EQ(out.pixels[i], expected.pixels[i / 5]);
  }
}

TEST(ResizeTest, SameSizeIsACopyAlsoOfACrop) {
  const Image in = golden("image.rgb").image();
  const ImageView crop = ImageView(in).crop(3, 4, {11, 13});
  ResizeScratch scratch;
  Image out;
  resize(crop, {11, 13}, Interpolation::kBicubic, out, scratch);
  EXPECT_EQ(out.pixels, testing::pixels_of(crop));
}

TEST(ResizeTest, RefusesEmptySizesAndUnknownNames) {
  const Image in = golden("image.rgb").image();
  ResizeScratch scratch;
  Image out;
  EXPECT_THROW(resize(ImageView(in), {0, 5}, Interpolation::kNearest, out, scratch), Error);
  EXPECT_THROW(interpolation_from_name("lanczos"), ConfigError);
}

}  // namespace
}  // namespace fovea::data
