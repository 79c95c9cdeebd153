#include "fovea/data/image/exif.h"

#include <gtest/gtest.h>

#include <vector>

namespace fovea::data {
namespace {

// A little-endian block with one entry; `type` 3 is a 16-bit number.
std::vector<uint8_t> block(uint16_t tag, uint8_t type, uint8_t value) {
  return {'I',
          'I',
          42,
          0,
          8,
          0,
          0,
          0,
          1,
          0,
          static_cast<uint8_t>(tag),
          static_cast<uint8_t>(tag >> 8),
          type,
          0,
          1,
          0,
          0,
          0,
          value,
          0,
          0,
          0};
}

TEST(ExifTest, ReadsTheOrientationInBothByteOrders) {
  EXPECT_EQ(exif_orientation(block(0x0112, 3, 6)), 6);
  const std::vector<uint8_t> big = {'M',  'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01,
                                    0x12, 0,   3, 0,  0, 0, 1, 0, 8, 0, 0};
  EXPECT_EQ(exif_orientation(big), 8);
}

TEST(ExifTest, DamagedBlocksMeanAsStored) {
  EXPECT_EQ(exif_orientation({}), 1);
  EXPECT_EQ(exif_orientation(block(0x0112, 3, 9)), 1);
  EXPECT_EQ(exif_orientation(block(0x0112, 3, 0)), 1);
  EXPECT_EQ(exif_orientation(block(0x0112, 4, 6)), 1);
  EXPECT_EQ(exif_orientation(block(0x0100, 3, 6)), 1);
  auto cut = block(0x0112, 3, 6);
  for (cut.pop_back(); !cut.empty(); cut.pop_back()) EXPECT_EQ(exif_orientation(cut), 1);
  auto far = block(0x0112, 3, 6);
  far[4] = far[5] = far[6] = far[7] = 0xff;
  EXPECT_EQ(exif_orientation(far), 1);
  auto many = block(0x0100, 3, 6);
  many[8] = many[9] = 0xff;
  EXPECT_EQ(exif_orientation(many), 1);
}

TEST(ExifTest, AQuarterTurn) {
  Image image = {2, 3, 1, {1, 2, 3, 4, 5, 6}};
  Image scratch;
  orient(image, 6, scratch);  // clockwise
  EXPECT_EQ(image.height, 3);
  EXPECT_EQ(image.width, 2);
  EXPECT_EQ(image.pixels, (std::vector<uint8_t>{4, 1, 5, 2, 6, 3}));
}

}  // namespace
}  // namespace fovea::data
