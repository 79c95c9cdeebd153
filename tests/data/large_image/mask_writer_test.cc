#include "fovea/data/large_image/mask_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fovea/data/image/decode.h"
#include "fovea/data/pictures/pictures.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

// Class (y / 10 + x / 16) % num_classes, in bands of several heights.
std::vector<int32_t> write_blocks(MaskWriter& writer, ImageSize size, int64_t num_classes) {
  std::vector<int32_t> classes;
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t x = 0; x < size.width; ++x) {
      classes.push_back(static_cast<int32_t>((y / 10 + x / 16) % num_classes));
    }
  }
  for (int64_t y = 0, count = 1; y < size.height; y += count, count = count % 37 + 9) {
    count = std::min(count, size.height - y);
    writer.write_rows(std::span(classes).subspan(y * size.width, count * size.width), count);
  }
  return classes;
}

TEST(MaskWriterTest, HoldsTheClassesInBytesOrTwo) {
  const testing::TempDir folder;
  const ImageSize size = {300, 517};
  for (const int64_t num_classes : {3, 256, 257}) {
    const auto path = folder.file(std::to_string(num_classes) + ".tif");
    MaskWriter writer(path, {.size = size, .num_classes = num_classes});
    const auto classes = write_blocks(writer, size, num_classes);
    EXPECT_FALSE(std::filesystem::exists(path));
    writer.finish();
    const auto mask = open_tiff(path);
    const bool is_bytes = num_classes <= 256;
    EXPECT_EQ(mask->format().type, is_bytes ? ScalarType::kUint8 : ScalarType::kUint16);
    std::vector<uint8_t> bytes(classes.size() * (is_bytes ? 1 : 2));
    mask->read({0, 0, size}, bytes);
    std::vector<int64_t> counts(static_cast<size_t>(num_classes));
    for (size_t i = 0; i < classes.size(); ++i) {
      uint16_t wide = bytes[i];
      if (!is_bytes) std::memcpy(&wide, bytes.data() + 2 * i, 2);
      ASSERT_EQ(wide, classes[i]) << i;
      ++counts[static_cast<size_t>(classes[i])];
    }
    EXPECT_EQ(writer.pixels_of_classes(), counts);
  }
}

// Each pixel of the overview: the mean of the image's, tinted by the class of most pixels.
TEST(MaskWriterTest, TheOverviewShowsTheMaskOverTheImage) {
  const testing::TempDir folder;
  const ImageSize size = {90, 160};
  Image image;
  reshape(image, size, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i % 251);
  MaskWriter writer(folder.file("mask.tif"), {.size = size, .num_classes = 4, .overview_side = 35});
  const auto classes = write_blocks(writer, size, 4);
  ASSERT_EQ(writer.overview_size(), (ImageSize{19, 35}));
  const auto picture = shrunk_image(ImageSource("image", image), writer.overview_size(), 1000);
  writer.finish(folder.file("mask.png"), picture);
  Image expected;
  reshape(expected, {19, 35}, 3);
  LabelMap small{{1, 19, 35}, std::vector<int32_t>(19 * 35)};
  for (int64_t at = 0; at < 19 * 35; ++at) {
    std::array<int64_t, 4> counts{};
    std::array<double, 3> sums{};
    int64_t count = 0;
    for (int64_t i = 0; i < 90 * 160; ++i) {
      if (i / 160 * 19 / 90 != at / 35 || i % 160 * 35 / 160 != at % 35) continue;
      ++counts[static_cast<size_t>(classes[i])];
      for (size_t c = 0; c < 3; ++c) sums[c] += image.pixels[3 * i + c];
      ++count;
    }
    small.classes[at] =
        static_cast<int32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    for (size_t c = 0; c < 3; ++c) {
      expected.pixels[3 * at + c] =
          static_cast<uint8_t>(sums[c] / static_cast<double>(count) + 0.5);
    }
  }
  EXPECT_EQ(picture.pixels, expected.pixels);
  tint(small, expected);
  EXPECT_EQ(load_image(folder.file("mask.png")).pixels, expected.pixels);
}

TEST(MaskWriterTest, AnUnfinishedMaskLeavesNothing) {
  const testing::TempDir folder;
  {
    MaskWriter writer(folder.file("mask.tif"), {.size = {20, 30}});
    writer.write_rows(std::vector<int32_t>(30 * 19, 1), 19);
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MaskWriterTest, RefusesClassesThatDoNotFit) {
  const testing::TempDir folder;
  EXPECT_THAT(message_of<ConfigError>([&] {
                MaskWriter(folder.file("mask.tif"), {.size = {20, 30}, .num_classes = 65537});
              }),
              HasSubstr("65537 classes; a TIFF mask holds 1 to 65536"));
  MaskWriter writer(folder.file("mask.tif"), {.size = {20, 30}});
  for (const int32_t label : {-1, 2}) {
    EXPECT_THROW(writer.write_rows(std::vector<int32_t>(30, label), 1), Error);
  }
}

}  // namespace
}  // namespace fovea::data
