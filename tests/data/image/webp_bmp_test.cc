// WebP and BMP against Pillow.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/image/bmp.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/image/image_header.h"
#include "fovea/data/image/webp.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_arrays;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

const char* const kWebpAndBmp = "data_webp_bmp";

std::vector<uint8_t> bytes_of_image(const std::string& name) {
  return golden("file." + name, kWebpAndBmp).bytes;
}

TEST(WebpBmpTest, PixelsAndSizesAreThoseOfPillow) {
  const TempDir dir;
  int count = 0;
  for (const auto& [key, array] : golden_arrays(kWebpAndBmp)) {
    if (!key.starts_with("pixels.")) continue;
    const std::string name = key.substr(7);
    SCOPED_TRACE(name);
    Image image;
    decode_image(bytes_of_image(name), name, image);
    const Image expected = array.image();
    EXPECT_EQ(image.height, expected.height);
    EXPECT_EQ(image.width, expected.width);
    ASSERT_EQ(image.channels, expected.channels);
    EXPECT_EQ(image.pixels, expected.pixels);
    const auto size = image_file_size(dir.write(name, bytes_of_image(name)));
    if (name.starts_with("webp_exif")) {
      EXPECT_FALSE(size.has_value());
    } else {
      EXPECT_EQ(size->height, expected.height);
      EXPECT_EQ(size->width, expected.width);
    }
    ++count;
  }
  EXPECT_EQ(count, 24);
  EXPECT_TRUE(is_image_name("a/b.WEBP"));
  EXPECT_TRUE(is_image_name("b.bmp"));
}

TEST(WebpBmpTest, TruncatedFilesAreErrors) {
  for (const auto& [key, array] : golden_arrays(kWebpAndBmp)) {
    if (!key.starts_with("file.")) continue;
    for (size_t cut = 3; cut + 16 < array.bytes.size(); cut += array.bytes.size() / 7) {
      auto bytes = array.bytes;
      bytes.resize(bytes.size() - cut);
      Image image;
      EXPECT_NE(message_of([&] { decode_image(bytes, "a", image); }), "") << key << " " << cut;
    }
  }
}

TEST(WebpBmpTest, HeadersThatAreWrongAreNamed) {
  Image image;
  const auto error = [&](std::vector<uint8_t> bytes, size_t at, std::vector<uint8_t> changed) {
    std::copy(changed.begin(), changed.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
    return message_of([&] { decode_image(bytes, "a", image); });
  };
  const auto bmp = bytes_of_image("bmp_24");
  EXPECT_THAT(error(bmp, 18, {0xFF, 0xFF, 0xFF, 0x7F}), HasSubstr("pixels, more than the"));
  EXPECT_THAT(error(bmp, 18, {0, 0, 0, 0}), HasSubstr("no pixels"));
  EXPECT_THAT(error(bmp, 28, {7, 0}), HasSubstr("a BMP of 7 bits"));
  EXPECT_THAT(error(bmp, 30, {4}), HasSubstr("compression 4"));
  EXPECT_THAT(error(bmp, 14, {64}), HasSubstr("a BMP header of 64 bytes"));
  EXPECT_THAT(error(bmp, 10, {0xFF, 0xFF, 0xFF, 0xFF}), HasSubstr("truncated"));
  EXPECT_THAT(error(bytes_of_image("bmp_565"), 54, {0x01, 0xF8}), HasSubstr("masks with gaps"));
  // Runs of 28 bytes for 8192 x 4096 pixels.
  EXPECT_THAT(error(bytes_of_image("bmp_rle8"), 18, {0, 0x20, 0, 0, 0, 0x10}),
              HasSubstr("truncated"));
  // The canvas of an extended file, 16384 x 16384.
  const auto webp = bytes_of_image("webp_alpha_lossy");
  EXPECT_THAT(error(webp, 24, {0xFF, 0x3F, 0, 0xFF, 0x3F, 0}), HasSubstr("a: the"));
  EXPECT_THAT(error(bytes_of_image("webp_lossless"), 22, {0xFF, 0xFF, 0xFF}), HasSubstr("WebP"));
}

}  // namespace
}  // namespace fovea::data
