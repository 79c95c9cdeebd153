#include "fovea/data/large_image/slide.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::golden;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

TEST(SlideTest, EndingsTellSlides) {
  EXPECT_TRUE(is_slide_name("a/b.SVS"));
  EXPECT_TRUE(is_slide_name("b.mrxs"));
  EXPECT_FALSE(is_slide_name("b.tif"));
}

#ifdef FOVEA_OPENSLIDE

constexpr const char* kGoldens = "data_slides";

std::string write_slide(const TempDir& dir, const std::string& name, const char* ending = ".svs") {
  return dir.write(name + ending, golden("file." + name, kGoldens).bytes);
}

std::vector<uint8_t> read_box(const Slide& slide, int64_t level, const PixelBox& box) {
  std::vector<uint8_t> rgb(static_cast<size_t>(box.size.height * box.size.width * 3));
  slide.read(level, box, rgb);
  return rgb;
}

std::vector<uint8_t> read_level(const Slide& slide, int64_t level) {
  return read_box(slide, level, {0, 0, slide.levels()[static_cast<size_t>(level)].size});
}

TEST(SlideTest, LevelsAreThoseOfOpenSlidesPython) {
  const TempDir dir;
  for (const auto& name : testing::golden_names("level", kGoldens)) {
    const Slide slide(write_slide(dir, name[1], ".tif"));
    const int64_t level = std::stoll(name[2]);
    const auto& expected = golden("level." + name[1] + "." + name[2], kGoldens);
    ASSERT_LT(level, std::ssize(slide.levels()));
    const auto& size = slide.levels()[static_cast<size_t>(level)].size;
    ASSERT_EQ(size, (ImageSize{expected.shape[0], expected.shape[1]}));
    const auto values = read_level(slide, level);
    const int most = name[1] == "jpeg" ? 2 : 0;  // decoders round apart
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::abs(values[i] - expected.bytes[i]), most) << name[1] << " " << i;
    }
  }
}

TEST(SlideTest, ScalesNameLevels) {
  const TempDir dir;
  const Slide slide(write_slide(dir, "aperio"));
  ASSERT_EQ(slide.levels().size(), 3u);
  EXPECT_DOUBLE_EQ(*slide.mpp(), 0.499);
  EXPECT_EQ(find_level(slide, {}), 0);
  EXPECT_EQ(find_level(slide, {.level = 2}), 2);
  EXPECT_EQ(find_level(slide, {.mpp = 1.0}), 1);
  EXPECT_EQ(find_level(slide, {.mpp = 2.05}), 2);
  EXPECT_THAT(message_of<ConfigError>([&] { find_level(slide, {.level = 3}); }),
              AllOf(HasSubstr("aperio.svs: no level 3"), HasSubstr("2: 52 x 36 (1.996 um)")));
  EXPECT_THAT(message_of<ConfigError>([&] { find_level(slide, {.mpp = 0.25}); }),
              HasSubstr("no level of 0.25 microns"));
  EXPECT_THAT(message_of<ConfigError>([&] { find_level(slide, {.level = 0, .mpp = 1.0}); }),
              HasSubstr("give one of them"));
  // Of a plain TIFF the resolution says it, where there is one.
  EXPECT_DOUBLE_EQ(*Slide(write_slide(dir, "plain", ".tif")).mpp(), 0.5);
  const Slide odd(write_slide(dir, "odd", ".tif"));
  EXPECT_FALSE(odd.mpp());
  EXPECT_THAT(message_of<ConfigError>([&] { find_level(odd, {.mpp = 0.5}); }),
              HasSubstr("does not say"));
}

// Also where a level's pixels lie between those of level 0, and from many threads.
TEST(SlideTest, APixelIsTheSameInEveryRectangle) {
  const TempDir dir;
  for (const char* name : {"aperio", "odd"}) {
    const Slide slide(write_slide(dir, name, ".tif"));
    const auto whole = read_level(slide, 1);
    const ImageSize size = slide.levels()[1].size;
    std::vector<std::thread> threads;
    std::vector<int> wrong(3, 0);
    for (size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        RandomStream random = testing::test_stream(t);
        for (int i = 0; i < 10; ++i) {
          const auto top = static_cast<int64_t>(random.below(static_cast<uint32_t>(size.height)));
          const auto left = static_cast<int64_t>(random.below(static_cast<uint32_t>(size.width)));
          const ImageSize part = {(size.height - top + 1) / 2, (size.width - left + 1) / 2};
          const auto rgb = read_box(slide, 1, {top, left, part});
          for (int64_t y = 0; y < part.height; ++y) {
            wrong[t] += !std::equal(rgb.begin() + y * part.width * 3,
                                    rgb.begin() + (y + 1) * part.width * 3,
                                    whole.begin() + ((top + y) * size.width + left) * 3);
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<int>(3, 0)) << name;
  }
}

TEST(SlideTest, LevelsAreRegionSources) {
  const TempDir dir;
  const auto path = write_slide(dir, "aperio");
  const auto source = open_region_source(path, {.mpp = 1.0});
  const auto& [height, width] = source->format().size;
  std::vector<uint8_t> pixels(static_cast<size_t>(height * width * 3));
  source->read({0, 0, {height, width}}, pixels);
  EXPECT_EQ(pixels, golden("level.aperio.1", kGoldens).bytes);
  EXPECT_EQ(open_region_source(path)->format().size, (ImageSize{144, 208}));
}

TEST(SlideTest, WhatIsCutOffIsNamed) {
  const TempDir dir;
  EXPECT_THAT(message_of<DataError>([&] { Slide(dir.write("x.svs", "no slide at all")); }),
              AllOf(HasSubstr("x.svs: no whole-slide image"), HasSubstr(".svs, .ndpi")));
  EXPECT_THAT(message_of<DataError>([&] { Slide(dir.file("none.svs")); }), HasSubstr("none.svs"));
  EXPECT_THAT(message_of<DataError>([&] { Slide(dir.path()); }), HasSubstr("not a regular file"));
  const auto& bytes = golden("file.aperio", kGoldens).bytes;
  int refused = 0;
  for (size_t size = 0; size < bytes.size(); size += 97 + size / 11) {
    const auto path = dir.write(
        "cut.svs",
        std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)));
    try {
      const Slide slide(path);
      for (int64_t level = 0; level < std::ssize(slide.levels()); ++level) read_level(slide, level);
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("cut.svs"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 20);
}

// A little-endian TIFF whose tag says something else: its number, the first of its numbers where
// they stand elsewhere, or how many it has.
class ForgedTiff {
 public:
  explicit ForgedTiff(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}

  ForgedTiff& set(int directory, uint16_t tag, uint32_t value) {
    const size_t at = entry(directory, tag);
    put(number<uint32_t>(at + 4) == 1 ? at + 8 : number<uint32_t>(at + 8), value);
    return *this;
  }
  ForgedTiff& set_count(int directory, uint16_t tag, uint32_t count) {
    put(entry(directory, tag) + 4, count);
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  template <class T>
  T number(size_t at) const {
    T value;
    std::memcpy(&value, &bytes_.at(at), sizeof(T));
    return value;
  }
  void put(size_t at, uint32_t value) { std::memcpy(&bytes_.at(at), &value, sizeof(value)); }
  size_t entry(int directory, uint16_t tag) const {
    size_t at = number<uint32_t>(4);
    for (; directory > 0; --directory) at = number<uint32_t>(at + 2 + 12 * number<uint16_t>(at));
    for (size_t i = 0; i < number<uint16_t>(at); ++i) {
      if (number<uint16_t>(at + 2 + 12 * i) == tag) return at + 2 + 12 * i;
    }
    throw std::out_of_range("no such tag");
  }

  std::vector<uint8_t> bytes_;
};

// OpenSlide would divide by zero, or end the program for want of memory.
TEST(SlideTest, LiesAreNamedBeforeOpenSlideBelievesThem) {
  constexpr uint16_t kWidth = 256, kHeight = 257, kSoftware = 305, kTileWidth = 322,
                     kTileHeight = 323, kTileOffsets = 324, kTileBytes = 325;
  const TempDir dir;
  const ForgedTiff good(golden("file.aperio", kGoldens).bytes);
  const auto refusal = [&](ForgedTiff forged) {
    const auto path = dir.write("forged.svs", forged.bytes());
    return message_of<DataError>([&] { Slide slide(path); });
  };
  const auto sides = HasSubstr("forged.svs: image 1 of ");
  EXPECT_THAT(refusal(ForgedTiff(good).set(1, kWidth, 0x7fffffff)),
              HasSubstr("forged.svs: image 1 of 3 cannot be read"));
  EXPECT_THAT(refusal(ForgedTiff(good).set(0, kWidth, (1 << 20) + 1)), HasSubstr("forged.svs"));
  EXPECT_THAT(refusal(ForgedTiff(good).set(1, kTileWidth, 1 << 20).set(1, kTileHeight, 1 << 20)),
              AllOf(sides, HasSubstr("in tiles of 1048576 x 1048576; expected")));
  EXPECT_THAT(refusal(ForgedTiff(good).set(1, kTileHeight, 0)), HasSubstr("image 1 of 3 cannot"));
  EXPECT_THAT(refusal(ForgedTiff(good).set(1, kTileBytes, 0xfffffff0)),
              HasSubstr("forged.svs: tile 0 of image 1 has 4294967280 bytes"));
  EXPECT_THAT(
      refusal(ForgedTiff(good).set_count(2, kSoftware, 0xfffffff2)),
      HasSubstr("forged.svs: tag 305 of image 2 has 4294967282 values, more than the file"));
  EXPECT_THAT(
      refusal(ForgedTiff(good).set(0, kTileBytes, 0).set(1, kHeight, 18248)),
      HasSubstr("forged.svs: image 1 of 104 x 18248 pixels is larger than the level above"));
  // A tile that lies outside of the file is that tile's.
  const auto outside = ForgedTiff(good).set(1, kTileOffsets, 1 << 30);
  const Slide slide(dir.write("outside.svs", outside.bytes()));
  EXPECT_THAT(message_of<DataError>([&] {
                read_box(slide, 1, {0, 0, {8, 8}});
              }),
              HasSubstr("outside.svs: 8 x 8 pixels of level 1 at row 0, column 0 cannot be read"));
  EXPECT_EQ(read_level(slide, 2), golden("level.aperio.2", kGoldens).bytes);
}

// Damage at one place is that place's: a reader after it gets its pixels.
TEST(SlideTest, AnErrorStaysWhereItIs) {
  const TempDir dir;
  auto bytes = golden("file.aperio", kGoldens).bytes;
  const std::array<uint8_t, 2> zlib = {0x78, 0x9c};
  const auto first = std::search(bytes.begin(), bytes.end(), zlib.begin(), zlib.end());
  ASSERT_NE(first, bytes.end());
  std::fill_n(first, 20, uint8_t{0xff});  // tile 0 of level 0
  const Slide slide(dir.write("hurt.svs", bytes));
  EXPECT_THAT(message_of<DataError>([&] {
                read_box(slide, 0, {0, 0, {8, 8}});
              }),
              HasSubstr("hurt.svs: 8 x 8 pixels of level 0 at row 0, column 0 cannot be read"));
  EXPECT_EQ(read_level(slide, 2), golden("level.aperio.2", kGoldens).bytes);
}

#else

TEST(SlideTest, ABuildWithoutOpenSlideSaysSo) {
  EXPECT_THAT(message_of<ConfigError>([] { Slide("x.svs"); }),
              AllOf(HasSubstr("x.svs"), HasSubstr("libopenslide-dev")));
}

#endif

}  // namespace
}  // namespace fovea::data
