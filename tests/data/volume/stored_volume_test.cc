#include "fovea/data/volume/stored_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

StoredVolume stored_bytes(const std::vector<uint8_t>& bytes, VolumeSize size) {
  StoredVolume stored;
  stored.source = "x";
  stored.bytes = bytes;
  stored.size = size;
  const auto strides =
      row_major_strides(std::array<int64_t, 4>{1, size.depth, size.height, size.width});
  std::copy(strides.begin(), strides.end(), stored.strides.begin());
  return stored;
}

// Every order of axes and every flip, against an index by index walk.
TEST(StoredVolumeTest, WalksInAnyOrder) {
  const std::array<int64_t, 4> sizes = {2, 67, 3, 19};
  std::vector<uint8_t> bytes(2 * 67 * 3 * 19 * 2);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 251);
  std::array<size_t, 4> order = {0, 1, 2, 3};
  do {
    for (const size_t flipped : {size_t{0}, order[3], order[0]}) {
      StoredVolume stored;
      stored.source = "x";
      stored.type = ScalarType::kUint16;
      stored.bytes = bytes;
      stored.channels = sizes[0];
      stored.size = {sizes[1], sizes[2], sizes[3]};
      int64_t stride = 1;
      for (size_t i = 4; i-- > 0; stride *= sizes[order[i]]) stored.strides[order[i]] = stride;
      stored.first = (sizes[flipped] - 1) * stored.strides[flipped];
      stored.strides[flipped] = -stored.strides[flipped];
      std::vector<float> got(static_cast<size_t>(stored.values())), expected;
      convert_values(stored, got.data());
      for (int64_t i = 0; i < stored.values(); ++i) {
        const int64_t at = stored.first + i / (67 * 3 * 19) * stored.strides[0] +
                           i / (3 * 19) % 67 * stored.strides[1] + i / 19 % 3 * stored.strides[2] +
                           i % 19 * stored.strides[3];
        expected.push_back(static_cast<float>(bytes[2 * at] + 256 * bytes[2 * at + 1]));
      }
      ASSERT_EQ(got, expected) << fmt::format("{}, flipped {}", fmt::join(order, ""), flipped);
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(StoredVolumeTest, HalfPrecision) {
  // IEEE 754 binary16: 1, -2, the largest, the smallest subnormal, zero, a number of every digit.
  const std::vector<uint16_t> bits = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x8000, 0x3555};
  const std::vector<float> expected = {1, -2, 65504, 0x1p-24F, -0.0F, 0.333251953125F};
  for (size_t i = 0; i < bits.size(); ++i) EXPECT_EQ(half_to_float(bits[i]), expected[i]);
  EXPECT_TRUE(std::isinf(half_to_float(0x7C00)));
  EXPECT_TRUE(std::isnan(half_to_float(0x7E00)));
}

TEST(StoredVolumeTest, SlopeAndIntercept) {
  const std::vector<uint8_t> bytes = {0, 1, 200};
  auto stored = stored_bytes(bytes, {1, 1, 3});
  stored.slope = 0.5;
  stored.intercept = -1024;
  Volume volume;
  convert_volume(stored, volume);
  EXPECT_THAT(volume.values, ElementsAre(-1024, -1023.5, -924));
}

TEST(StoredVolumeTest, LabelsBecomeClasses) {
  const std::vector<uint8_t> bytes = {1, 4, 0, 255, 2, 3};
  const auto stored = stored_bytes(bytes, {1, 2, 3});
  LabelMap mask;
  convert_labels(stored, {.offset = 1, .num_classes = 4, .ignore_values = {0, 255}}, mask);
  EXPECT_EQ(mask.size, (VolumeSize{1, 2, 3}));
  EXPECT_THAT(mask.classes, ElementsAre(0, 3, -1, -1, 1, 2));
  EXPECT_THAT(message_of([&] { convert_labels(stored, {.offset = 1, .num_classes = 4}, mask); }),
              HasSubstr("the number 0 at [0, 0, 0, 2] (channel, D, H, W); expected whole numbers "
                        "from 1 to 4"));
}

TEST(StoredVolumeTest, LabelsThatAreNotWhole) {
  const std::vector<float> numbers = {1, 0.5F, NAN};
  const auto* first = reinterpret_cast<const uint8_t*>(numbers.data());
  const std::vector<uint8_t> bytes(first, first + 12);
  auto stored = stored_bytes(bytes, {1, 1, 3});
  stored.type = ScalarType::kFloat32;
  LabelMap mask;
  EXPECT_THAT(message_of([&] { convert_labels(stored, {.num_classes = 4}, mask); }),
              HasSubstr("a number that is not whole, or is too large at [0, 0, 0, 1]"));
  stored.channels = 3;
  stored.size = {1, 1, 1};
  stored.strides = {1, 0, 0, 0};
  EXPECT_THAT(message_of([&] { convert_labels(stored, {.num_classes = 4}, mask); }),
              HasSubstr("3 channels"));
}

TEST(StoredVolumeTest, ScalesToUnitRange) {
  Volume volume{.channels = 1, .size = {1, 1, 4}, .values = {-1, 3, 1, 0}};
  scale_to_unit_range(range_of(volume), volume);
  EXPECT_THAT(volume.values, ElementsAre(0, 1, 0.5, 0.25));
  volume.values = {7, 7, 7, 7};
  scale_to_unit_range(range_of(volume), volume);
  EXPECT_THAT(volume.values, ElementsAre(0, 0, 0, 0));
}

TEST(StoredVolumeTest, NeverReadsBeyondTheBytes) {
  const std::vector<uint8_t> bytes(5);
  auto stored = stored_bytes(bytes, {1, 2, 3});
  Volume volume;
  EXPECT_THROW(convert_volume(stored, volume), Error);
  stored.size = {1, 1, 5};
  stored.strides[3] = -1;
  EXPECT_THROW(convert_volume(stored, volume), Error);
}

TEST(ScalarTypeTest, Names) {
  EXPECT_EQ(numpy_type("<f4", "x").type, ScalarType::kFloat32);
  EXPECT_EQ(numpy_type(">i2", "x").order, std::endian::big);
  EXPECT_EQ(numpy_type("|b1", "x").type, ScalarType::kUint8);
  EXPECT_EQ(scalar_type_named("uint16"), ScalarType::kUint16);
  EXPECT_THAT(message_of([] { numpy_type("<c8", "x"); }), HasSubstr("'<c8' is not read"));
  EXPECT_THAT(message_of([] { numpy_type("|i4", "x"); }), HasSubstr("'|i4'"));
  EXPECT_THAT(message_of([] { scalar_type_named("int"); }), HasSubstr("\"int\""));
}

}  // namespace
}  // namespace fovea::data
