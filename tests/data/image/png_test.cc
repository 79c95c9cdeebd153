#include "fovea/data/image/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

#include "fovea/data/image/decode.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;

// Writes width and height into the header, with a checksum that is right.
std::vector<uint8_t> png_with_size(std::vector<uint8_t> bytes, uint32_t width, uint32_t height) {
  const auto put = [&](size_t offset, uint32_t value) {
    for (int i = 0; i < 4; ++i) bytes[offset + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
  };
  put(16, width);
  put(20, height);
  put(29, static_cast<uint32_t>(crc32(0, bytes.data() + 12, 17)));
  return bytes;
}

TEST(PngTest, RefusesHugeImagesFromTheHeader) {
  const auto bytes = png_with_size(golden("file.png_rgb").bytes, 100000, 100000);
  Image image;
  EXPECT_THAT(message_of<DataError>([&] { decode_image(bytes, "big.png", image); }),
              HasSubstr("big.png: the header announces 100000 x 100000 pixels, more than the"));
  EXPECT_TRUE(image.pixels.empty());
  EXPECT_THROW(decode_png(png_with_size(bytes, 0xffffffff, 0xffffffff), image), DataError);
  EXPECT_THROW(decode_png(png_with_size(bytes, 0, 5), image), DataError);
}

TEST(PngTest, RefusesHeadersThatTheFileCannotHold) {
  const auto bytes = png_with_size(golden("file.png_rgb").bytes, 10000, 10000);
  Image image;
  EXPECT_THAT(message_of<DataError>([&] { decode_png(bytes, image); }),
              HasSubstr("PNG is truncated"));
  EXPECT_TRUE(image.pixels.empty());
}

TEST(PngTest, ADamagedByteIsAnError) {
  auto bytes = golden("file.png_rgb").bytes;
  bytes[bytes.size() / 2] ^= 0x10;
  Image image;
  EXPECT_THAT(message_of<DataError>([&] { decode_png(bytes, image); }), HasSubstr("damaged PNG"));
}

TEST(PngTest, WhatIsEncodedDecodes) {
  for (const char* name : {"rgb", "gray"}) {
    const Image image = golden(std::string("image.") + name).image();
    Image back;
    decode_png(encode_png(image), back);
    EXPECT_EQ(back.pixels, image.pixels);
    EXPECT_EQ(back.channels, image.channels);
  }
  // Transparency is written, and dropped on reading.
  Image back;
  decode_png(encode_png({1, 2, 4, {1, 2, 3, 0, 4, 5, 6, 128}}), back);
  EXPECT_EQ(back.pixels, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
  decode_png(encode_png({1, 2, 2, {7, 0, 8, 9}}), back);
  EXPECT_EQ(back.pixels, (std::vector<uint8_t>{7, 8}));
}

TEST(PngTest, RefusesToEncodeWhatIsNoImage) {
  EXPECT_THROW(encode_png({1, 1, 5, {1, 2, 3, 4, 5}}), Error);
  EXPECT_THROW(encode_png({2, 2, 1, {1, 2, 3}}), Error);
  EXPECT_THROW(encode_png({0, 2, 1, {}}), Error);
}

}  // namespace
}  // namespace fovea::data
