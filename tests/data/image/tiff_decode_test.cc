#include "fovea/data/image/tiff_decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/image_formats.h"
#include "fovea/data/large_image/tiff.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

constexpr const char* kGoldens = "data_tiff_images";

const std::vector<uint8_t>& file_named(const std::string& name) {
  return golden("file." + name, kGoldens).bytes;
}

// Bits, palettes, alpha, planes, strips and tiles, compressions, orientations, several pages.
TEST(TiffDecodeTest, GivesPillowsPixels) {
  const TempDir dir;
  int read = 0;
  for (const auto& name : golden_names("file", kGoldens)) {
    const auto& expected = golden("decoded." + name[1], kGoldens);
    Image image;
    try {
      decode_image(file_named(name[1]), name[1], image);
    } catch (const DataError& error) {  // zstd, lzma and webp are up to how libtiff was built
      EXPECT_THAT(error.what(), HasSubstr("libtiff of this machine does not have")) << name[1];
      continue;
    }
    ++read;
    ASSERT_EQ((std::vector<int64_t>{image.height, image.width, image.channels}), expected.shape)
        << name[1];
    // Two decoders of JPEG, and two roundings of YCbCr, may differ.
    const bool is_rounded = name[1].starts_with("jpeg") || name[1].starts_with("ycbcr");
    for (size_t i = 0; i < image.pixels.size(); ++i) {
      ASSERT_LE(std::abs(image.pixels[i] - expected.bytes[i]), is_rounded ? 2 : 0)
          << name[1] << " " << i;
    }
    const auto size = image_file_size(dir.write(name[1] + ".tif", file_named(name[1])));
    EXPECT_EQ(size, (ImageSize{image.height, image.width})) << name[1];
  }
  EXPECT_GE(read, 35);
}

TEST(TiffDecodeTest, EndingsAreThoseOfImages) {
  EXPECT_TRUE(is_image_name("a/b.TIF"));
  EXPECT_TRUE(is_image_name("b.tiff"));
  EXPECT_FALSE(is_image_name("b.tifx"));
  EXPECT_FALSE(is_image_name("tiff"));
  EXPECT_FALSE(is_image_name("b."));
}

TEST(TiffDecodeTest, CutFilesAreErrorsAtEveryLength) {
  for (const auto& name : golden_names("file", kGoldens)) {
    if (name[1].starts_with("orientation")) continue;
    const auto& whole = file_named(name[1]);
    Image image;
    for (size_t size = 0; size < whole.size(); size += 5 + size / 9) {
      const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
      try {
        decode_image(cut, name[1], image);
      } catch (const DataError& error) {
        EXPECT_THAT(error.what(), HasSubstr(name[1]));
        continue;
      }
      // What is behind the pixels, such as another page or numbers for printers, may be missing.
      EXPECT_EQ(image.pixels, golden("decoded." + name[1], kGoldens).bytes)
          << name[1] << " " << size;
    }
  }
}

// 8 + 2 + 12 * n + 4 bytes: one directory.
std::vector<uint8_t> tiff_with(const std::vector<std::array<uint32_t, 4>>& tags) {
  std::vector<uint8_t> bytes = {'I', 'I', 42, 0, 8, 0, 0, 0};
  const auto add = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(value >> 8 * i));
  };
  add(static_cast<uint32_t>(tags.size()), 2);
  for (const auto& [tag, type, count, value] : tags) {
    add(tag, 2);
    add(type, 2);
    add(count, 4);
    add(value, 4);
  }
  add(0, 4);
  bytes.resize(bytes.size() + 64);
  return bytes;
}

std::string refusal_of(const std::vector<uint8_t>& bytes) {
  Image image;
  const std::string message = message_of<DataError>([&] { decode_image(bytes, "x.tif", image); });
  EXPECT_LT(image.pixels.capacity(), size_t{1} << 20) << message;
  return message;
}

TEST(TiffDecodeTest, HeadersThatPromiseMoreThanTheFileCostNothing) {
  const auto image_of = [](uint32_t side, uint32_t compression, uint32_t bytes) {
    return tiff_with({{256, 4, 1, side},
                      {257, 4, 1, side},
                      {258, 3, 1, 8},
                      {259, 3, 1, compression},
                      {262, 3, 1, 1},
                      {273, 4, 1, 100},
                      {278, 4, 1, side},
                      {279, 4, 1, bytes}});
  };
  for (const uint32_t compression : {1, 5, 8, 32773}) {
    EXPECT_THAT(refusal_of(image_of(13000, compression, 40)),
                HasSubstr("x.tif: the TIFF is truncated"));
    EXPECT_THAT(refusal_of(image_of(40, compression, 4000)), HasSubstr("truncated"));
  }
  EXPECT_THAT(refusal_of(image_of(14000, 1, 40)),
              AllOf(HasSubstr("14000 x 14000 pixels"), HasSubstr("format: slides")));
  EXPECT_THAT(refusal_of(image_of(0, 1, 40)), HasSubstr("TIFF"));
  EXPECT_THAT(refusal_of(image_of(8, 60000, 40)), HasSubstr("compression 60000"));
}

// A strip of 69 MB is read row by row: here each row is one number, packed as runs of 128.
TEST(TiffDecodeTest, LargeStripsAreReadByRow) {
  constexpr uint32_t kWidth = 16384, kHeight = 4200, kFirst = 200;
  constexpr uint32_t kBytes = kWidth / 128 * 2 * kHeight;
  auto bytes = tiff_with({{256, 4, 1, kWidth},
                          {257, 4, 1, kHeight},
                          {258, 3, 1, 8},
                          {259, 3, 1, 32773},
                          {262, 3, 1, 1},
                          {273, 4, 1, kFirst},
                          {278, 4, 1, kHeight},
                          {279, 4, 1, kBytes}});
  bytes.resize(kFirst);
  for (uint32_t i = 0; i < kBytes / 2; ++i) {
    bytes.push_back(129);
    bytes.push_back(static_cast<uint8_t>(i / (kWidth / 128) % 251));
  }
  Image image;
  decode_image(bytes, "x.tif", image);
  ASSERT_EQ(image.pixels.size(), size_t{kWidth} * kHeight);
  for (uint32_t y = 0; y < kHeight; ++y) {
    ASSERT_EQ(image.pixels[size_t{y} * kWidth], y % 251);
    ASSERT_EQ(image.pixels[size_t{y} * kWidth + kWidth - 1], y % 251);
  }
  bytes.resize(bytes.size() - 2);
  EXPECT_THAT(refusal_of(bytes), HasSubstr("truncated"));
}

TEST(TiffDecodeTest, WhatIsNoPictureIsRefused) {
  const auto image_of = [](uint32_t bits, uint32_t format, uint32_t samples, uint32_t photometric) {
    return tiff_with({{256, 4, 1, 2},
                      {257, 4, 1, 2},
                      {258, 3, 1, bits},
                      {259, 3, 1, 1},
                      {262, 3, 1, photometric},
                      {273, 4, 1, 100},
                      {277, 3, 1, samples},
                      {278, 4, 1, 2},
                      {279, 4, 1, 64},
                      {339, 3, 1, format}});
  };
  EXPECT_THAT(refusal_of(image_of(32, 3, 1, 1)), HasSubstr("floating point"));
  EXPECT_THAT(refusal_of(image_of(16, 2, 1, 1)), HasSubstr("16 bits a sample, signed"));
  EXPECT_THAT(refusal_of(image_of(8, 1, 7, 1)), HasSubstr("7 samples a pixel"));
  EXPECT_THAT(refusal_of(image_of(8, 1, 2, 1)), HasSubstr("2 samples a pixel"));
  EXPECT_THAT(refusal_of(image_of(8, 1, 1, 8)), HasSubstr("photometric interpretation 8"));
  EXPECT_THAT(refusal_of(image_of(8, 1, 2, 2)), HasSubstr("2 samples a pixel"));
}

}  // namespace
}  // namespace fovea::data
