#include "fovea/data/large_image/tiff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/write_error.h"
#include "fovea/data/image/jpeg_encode.h"
#include "fovea/data/image/png.h"
#include "fovea/data/large_image/raw_regions.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kTiffGoldens = "data_tiff";

std::vector<uint8_t> read_region(const RegionSource& source, const PixelBox& region) {
  std::vector<uint8_t> bytes(
      static_cast<size_t>(region.size.height * region.size.width * source.format().pixel_bytes()));
  source.read(region, bytes);
  return bytes;
}

std::vector<uint8_t> read_whole(const RegionSource& source) {
  return read_region(source, {0, 0, source.format().size});
}

std::vector<float> floats_of(const RegionSource& source) {
  const auto& format = source.format();
  RegionRows rows(source, 1 << 16);
  std::vector<float> values(
      static_cast<size_t>(format.size.height * format.size.width * format.channels));
  for (int64_t y = 0; y < format.size.height; ++y) {
    row_to_floats(source, y, rows.row(y), values.data() + y * format.size.width * format.channels);
  }
  return values;
}

TEST(TiffTest, ReadsWhatTifffileReads) {
  const testing::TempDir folder;
  const auto names = golden_names("file", kTiffGoldens);
  EXPECT_EQ(names.size(), 15u);
  for (const auto& name : names) {
    const auto path = folder.write(name[1] + ".tif", golden("file." + name[1], kTiffGoldens).bytes);
    const auto source = open_region_source(path);
    const auto& pixels = golden("pixels." + name[1], kTiffGoldens);
    ASSERT_EQ(source->format().size, (ImageSize{pixels.shape[0], pixels.shape[1]})) << name[1];
    ASSERT_EQ(source->format().channels, pixels.shape[2]) << name[1];
    const auto values = floats_of(*source);
    const auto expected = pixels.values<float>();
    // Two decoders of JPEG may round apart.
    const float tolerance = name[1].find("jpeg") == std::string::npos ? 0.0f : 2.0f;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(values[i] - expected[i]), tolerance) << name[1] << " " << i;
    }
  }
}

TEST(TiffTest, RegionsAreCutFromTheWhole) {
  const testing::TempDir folder;
  RandomStream random = testing::test_stream();
  for (const auto& name : golden_names("file", kTiffGoldens)) {
    const auto path = folder.write(name[1] + ".tif", golden("file." + name[1], kTiffGoldens).bytes);
    const auto source = open_tiff(path);
    const auto [height, width] = source->format().size;
    const int64_t pixel = source->format().pixel_bytes();
    const auto whole = read_whole(*source);
    for (int round = 0; round < 20; ++round) {
      PixelBox region;
      region.top = random.below(static_cast<uint32_t>(height));
      region.left = random.below(static_cast<uint32_t>(width));
      region.size = {1 + random.below(static_cast<uint32_t>(height - region.top)),
                     1 + random.below(static_cast<uint32_t>(width - region.left))};
      const auto part = read_region(*source, region);
      for (int64_t y = 0; y < region.size.height; ++y) {
        const auto row = part.begin() + y * region.size.width * pixel;
        ASSERT_TRUE(std::equal(row, row + region.size.width * pixel,
                               whole.begin() + ((region.top + y) * width + region.left) * pixel))
            << name[1] << " " << round;
      }
    }
    EXPECT_THROW(read_region(*source, {0, 1, {1, width}}), Error);
  }
}

TEST(TiffTest, WritesWhatItReads) {
  const testing::TempDir folder;
  RandomStream random = testing::test_stream(7);
  for (const char* compression : {"none", "lzw", "deflate"}) {
    for (const auto type : {ScalarType::kUint8, ScalarType::kUint16, ScalarType::kInt16,
                            ScalarType::kUint32, ScalarType::kInt32, ScalarType::kFloat32}) {
      for (const int64_t channels : {1, 3, 5}) {
        const TiffWriterOptions options = {{300, 270}, channels, type, compression};
        const int64_t row_bytes = 270 * channels * bytes_of(type);
        std::vector<uint8_t> pixels(static_cast<size_t>(300 * row_bytes));
        for (uint8_t& byte : pixels) byte = static_cast<uint8_t>(random.below(3));
        const auto path = folder.file("written.tif");
        TiffWriter writer(path, options);
        int64_t y = 0;
        for (const int64_t count : {1, 7, 280, 12}) {
          writer.write_rows(std::span(pixels).subspan(static_cast<size_t>(y * row_bytes),
                                                      static_cast<size_t>(count * row_bytes)),
                            count);
          y += count;
        }
        writer.finish();
        const auto source = open_tiff(path);
        EXPECT_EQ(source->format().channels, channels);
        EXPECT_EQ(source->format().type, type);
        EXPECT_TRUE(read_whole(*source) == pixels) << compression << " " << channels;
      }
    }
  }
}

TEST(TiffTest, AnUnfinishedFileLeavesNothing) {
  const testing::TempDir folder;
  {
    TiffWriter writer(folder.file("half.tif"), {{40, 40}, 1, ScalarType::kUint8, "deflate"});
    writer.write_rows(std::vector<uint8_t>(400), 10);
    EXPECT_THROW(writer.finish(), Error);
    EXPECT_THROW(writer.write_rows(std::vector<uint8_t>(40 * 40), 40), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW(TiffWriter(folder.file("no/such/folder.tif") + "/x/y", {{4, 4}}), WriteError);
  EXPECT_THROW(TiffWriter(folder.file("a.tif"), {{4, 4}, 1, ScalarType::kFloat64}), ConfigError);
  EXPECT_THROW(TiffWriter(folder.file("a.tif"), {{4, 4}, 1, ScalarType::kUint8, "zip"}),
               ConfigError);
  EXPECT_THROW(TiffWriter(folder.file("a.tif"), {{0, 4}}), ConfigError);
}

TEST(TiffTest, DamagedFilesAreNamed) {
  const testing::TempDir folder;
  const auto& bytes = golden("file.tiles_lzw_rgb", kTiffGoldens).bytes;
  // Cut anywhere: opening or reading says so, nothing is made up.
  int64_t num_refused = 0;
  for (size_t size = 0; size < bytes.size(); size += 23) {
    const auto path =
        folder.write("cut.tif", std::vector<uint8_t>(bytes.begin(), bytes.begin() + size));
    try {
      read_whole(*open_tiff(path));
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cut.tif"));
      ++num_refused;
    }
  }
  EXPECT_EQ(num_refused, static_cast<int64_t>((bytes.size() + 22) / 23));
  EXPECT_THAT(message_of([&] { open_tiff(folder.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(message_of([&] { open_tiff(folder.path() + "/none.tif"); }),
              HasSubstr("cannot open"));
  EXPECT_THAT(message_of([&] { open_tiff(folder.write("x.tif", "not a tiff at all")); }),
              HasSubstr("not a TIFF file"));
  EXPECT_THAT(message_of([&] { open_tiff(folder.write("one.tif", bytes), 1); }),
              HasSubstr("has no image 1"));
}

// Bytes of a little-endian TIFF whose directory holds `tags` of (tag, type, value).
std::vector<uint8_t> tiff_of(const std::vector<std::array<uint32_t, 3>>& tags) {
  std::vector<uint8_t> bytes = {'I', 'I', 42, 0, 8, 0, 0, 0, static_cast<uint8_t>(tags.size()), 0};
  const auto append = [&](uint32_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
  };
  for (const auto& [tag, type, value] : tags) {
    append(tag, 2);
    append(type, 2);
    append(1, 4);
    append(value, 4);
  }
  append(0, 4);
  return bytes;
}

// width, height, tile sides, bits, compression, photometric, orientation.
struct TiffHeader {
  uint32_t width = 64, height = 64, tile = 16, bits = 8, compression = 1, photometric = 1,
           orientation = 1, samples = 1;
};

std::vector<uint8_t> tiff_of(const TiffHeader& h) {
  return tiff_of({{256, 4, h.width},
                  {257, 4, h.height},
                  {258, 3, h.bits},
                  {259, 3, h.compression},
                  {262, 3, h.photometric},
                  {274, 3, h.orientation},
                  {277, 3, h.samples},
                  {322, 4, h.tile},
                  {323, 4, h.tile},
                  {324, 4, 0},
                  {325, 4, 0}});
}

TEST(TiffTest, RefusesWhatIsTooLargeOrOfAnotherKind) {
  const testing::TempDir folder;
  const auto refused = [&](const TiffHeader& header) {
    return message_of([&] { open_tiff(folder.write("header.tif", tiff_of(header))); });
  };
  EXPECT_THAT(refused({.width = 1u << 31}), HasSubstr("expected sides of 1 to 1048576"));
  EXPECT_THAT(refused({.height = 0}), HasSubstr("header.tif"));
  EXPECT_THAT(refused({.width = 1 << 20, .height = 1 << 20, .tile = 1 << 20}),
              HasSubstr("header.tif"));
  EXPECT_THAT(refused({.tile = 0xfffffff0}), HasSubstr("header.tif"));
  EXPECT_THAT(refused({.tile = 1}), HasSubstr("tiles of 1x1 pixels"));
  EXPECT_THAT(refused({.bits = 1}), HasSubstr("1 bits a sample"));
  EXPECT_THAT(refused({.compression = 34712}), HasSubstr("expected none, LZW, deflate"));
  EXPECT_THAT(refused({.photometric = 5}), HasSubstr("photometric"));
  EXPECT_THAT(refused({.photometric = 0}), HasSubstr("black is 0"));
  EXPECT_THAT(refused({.orientation = 3}), HasSubstr("orientation 3"));
  EXPECT_THAT(refused({.samples = 1000}), HasSubstr("1000 channels"));
  // A good header without tiles behind it.
  const auto source = open_tiff(folder.write("empty.tif", tiff_of(TiffHeader{})));
  EXPECT_THAT(message_of([&] { read_whole(*source); }), HasSubstr("tile 0 at row 0, column 0"));
}

TEST(RegionSourceTest, OpensJpegAndPngToo) {
  const testing::TempDir folder;
  Image image = {20, 30, 3, std::vector<uint8_t>(20 * 30 * 3, 90)};
  image.pixels[5] = 7;
  const auto source = open_region_source(folder.write("a.png", encode_png(image)));
  EXPECT_TRUE(read_whole(*source) == image.pixels);
  EXPECT_THROW(open_region_source(folder.write("text.png", "no image")), DataError);
}

TEST(RawRegionsTest, ReadsEveryOrderOfAxesAndBytes) {
  const testing::TempDir folder;
  const int64_t height = 7, width = 5, channels = 3;
  std::vector<uint8_t> interleaved, planes(static_cast<size_t>(2 * height * width * channels));
  for (int64_t i = 0; i < height * width; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      const auto value = static_cast<uint16_t>(300 * c + i);
      interleaved.push_back(static_cast<uint8_t>(value & 255));
      interleaved.push_back(static_cast<uint8_t>(value >> 8));
      const auto at = static_cast<size_t>(2 * (c * height * width + i));
      planes[at] = static_cast<uint8_t>(value >> 8);  // big-endian
      planes[at + 1] = static_cast<uint8_t>(value & 255);
    }
  }
  planes.insert(planes.begin(), 11, 0);
  const auto first = open_raw_regions(folder.write("hwc.raw", interleaved),
                                      {ScalarType::kUint16, {height, width, channels}, "HWC"});
  const auto second = open_raw_regions(
      folder.write("chw.raw", planes),
      {ScalarType::kUint16, {channels, height, width}, "CHW", 11, std::endian::big});
  EXPECT_EQ(read_whole(*first), interleaved);
  EXPECT_EQ(read_whole(*second), interleaved);
  const PixelBox region = {2, 1, {3, 2}};
  EXPECT_EQ(read_region(*first, region), read_region(*second, region));
  EXPECT_EQ(read_region(*first, region)[0], 2 * width + 1);
}

TEST(RawRegionsTest, RefusesOtherSizes) {
  const testing::TempDir folder;
  const auto path = folder.write("a.raw", std::vector<uint8_t>(20));
  EXPECT_THAT(message_of([&] {
                open_raw_regions(path, {ScalarType::kUint8, {3, 7}, "HW"});
              }),
              HasSubstr("20 bytes; expected 21"));
  EXPECT_THAT(message_of([&] {
                open_raw_regions(path, {ScalarType::kUint8, {4, 5}, "HW", ~uint64_t{0}});
              }),
              HasSubstr("offset"));
  EXPECT_THAT(message_of([&] {
                open_raw_regions(path, {ScalarType::kUint8, {1 << 30, 1 << 30}, "HW"});
              }),
              HasSubstr("expected sides"));
  EXPECT_THAT(message_of<ConfigError>([&] {
                open_raw_regions(path, {ScalarType::kUint8, {4, 5}, "WH"});
              }),
              HasSubstr("expected HW, HWC or CHW"));
  EXPECT_THROW(open_raw_regions(folder.path() + "/none.raw", {ScalarType::kUint8, {4, 5}, "HW"}),
               DataError);
}

}  // namespace
}  // namespace fovea::data
