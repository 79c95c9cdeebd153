#include "fovea/data/image/jpeg_encode.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "fovea/data/image/jpeg.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;

TEST(JpegEncodeTest, DecodesToNearlyTheSame) {
  for (const std::string name : {"decoded.png_rgb", "decoded.png_gray"}) {
    const Image image = golden(name).image();
    double last = 1e9;
    for (const int quality : {30, 75, 95}) {
      std::vector<uint8_t> bytes;
      encode_jpeg(ImageView(image), quality, bytes);
      Image decoded;
      decode_jpeg(bytes, decoded);
      ASSERT_EQ(decoded.pixels.size(), image.pixels.size());
      EXPECT_EQ(decoded.width, image.width);
      double error = 0;
      for (size_t i = 0; i < image.pixels.size(); ++i) {
        error += std::abs(double{1} * image.pixels[i] - decoded.pixels[i]);
      }
      EXPECT_LT(error, last) << name << " " << quality;
      last = error;
    }
  }
}

TEST(JpegEncodeTest, RefusesWhatJpegCannotHold) {
  std::vector<uint8_t> bytes;
  EXPECT_THROW(encode_jpeg(ImageView(Image{1, 1, 2, {0, 0}}), 90, bytes), Error);
  EXPECT_THROW(encode_jpeg(ImageView(Image{1, 1, 1, {0}}), 0, bytes), Error);
  EXPECT_THROW(encode_jpeg(ImageView(Image{1, 70000, 1, std::vector<uint8_t>(70000)}), 90, bytes),
               Error);
  encode_jpeg(ImageView(Image{1, 1, 1, {7}}), 90, bytes);  // still usable
  EXPECT_TRUE(is_jpeg(bytes));
}

}  // namespace
}  // namespace fovea::data
