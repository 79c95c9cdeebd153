#include "fovea/data/datasets/hdf5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/registry.h"
#include "fovea/data/tiles/tiling.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using testing::golden_file;
using testing::golden_values;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

#ifdef FOVEA_HDF5

TEST(Hdf5Test, ReadsVolumesMasksAndImages) {
  const TempDir dir;
  const auto path = dir.write("a.h5", golden_file("hdf5.a"));
  const auto dataset = build_dataset(
      {Hdf5Config{.path = path, .labels = "labels", .masks = "group/masks", .num_classes = 3}});
  ASSERT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->form(), SampleForm::kVolume);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_EQ(sample.volume().size, (VolumeSize{3, 4, 5}));
  const auto values = golden_values<float>("values.npz");
  EXPECT_EQ(sample.volume().values, std::vector<float>(values.begin() + 120, values.end()));
  const auto masks = golden_values<int16_t>("masks.npz");
  EXPECT_EQ(sample.mask.classes, std::vector<int32_t>(masks.begin() + 60, masks.end()));
  EXPECT_EQ(sample.label, 0);
  const auto images =
      build_dataset({Hdf5Config{.path = path, .images = "pixels", .labels = "labels"}});
  EXPECT_EQ(images->form(), SampleForm::kImage);
  EXPECT_EQ(images->num_classes(), 2);
  images->read(1, sample);
  const auto pixels = golden_values<uint8_t>("values.medmnist_color");
  EXPECT_EQ(sample.image().pixels, std::vector<uint8_t>(pixels.begin() + 2352, pixels.end()));
  EXPECT_EQ(sample.label, 0);
}

TEST(Hdf5Test, RegionsOfVolumes) {
  const TempDir dir;
  const auto path = dir.write("a.h5", golden_file("hdf5.a"));
  const auto dataset = build_dataset(
      {Hdf5Config{.path = path, .labels = "labels", .masks = "group/masks", .num_classes = 3}});
  Sample whole, part, expected;
  dataset->read(1, whole);
  const VolumeSize size = dataset->size_of(1);
  EXPECT_EQ(size, whole.volume().size);
  EXPECT_EQ(dataset->channels_of(1), whole.volume().channels);
  const VolumeRegion region{.start = {1, 0, 1}, .size = {1, 2, 2}, .whole = size};
  ASSERT_TRUE(dataset->read_region(1, region, part));
  extract_tile(whole, {region.start, region.size, region.size}, expected);
  EXPECT_EQ(part.volume().values, expected.volume().values);
  EXPECT_EQ(part.mask.classes, expected.mask.classes);
}

TEST(Hdf5Test, WhatDoesNotFit) {
  const TempDir dir;
  const auto path = dir.write("a.h5", golden_file("hdf5.a"));
  const auto error = [](Hdf5Config config) { return message_of([&] { build_dataset({config}); }); };
  EXPECT_THAT(error({.path = dir.file("none.h5")}), HasSubstr("No such file"));
  EXPECT_THAT(error({.path = dir.write("b.h5", "hello")}), HasSubstr("cannot be opened as HDF5"));
  EXPECT_THAT(error({.path = path, .images = "none"}), HasSubstr("a.h5:none: no such array"));
  EXPECT_THAT(error({.path = path, .images = "words"}), HasSubstr("a type that is no number"));
  EXPECT_THAT(error({.path = path, .labels = "labels", .num_classes = 1}),
              HasSubstr("label 1; expected 0 to 0"));
  EXPECT_THAT(error({.path = path, .masks = "labels", .num_classes = 2}), HasSubstr("masks of"));
}

// The numbers of the first sample; the rest of such a file is the library's, and for trusted files.
TEST(Hdf5Test, FlippedBitsUnderFletchersSumsAreSeen) {
  const TempDir dir;
  auto bytes = testing::golden("file.hdf5_fletcher32", "data_checksums").bytes;
  const auto& values = testing::golden("values.hdf5_fletcher32", "data_checksums").bytes;
  const auto first = std::search(bytes.begin(), bytes.end(), values.begin(), values.begin() + 96);
  ASSERT_NE(first, bytes.end());
  Sample sample;
  build_dataset({Hdf5Config{.path = dir.write("a.h5", bytes)}})->read(0, sample);
  EXPECT_EQ(sample.volume().size, (VolumeSize{1, 4, 6}));
  for (int bit = 0; bit < 96 * 8; bit += 5) {
    first[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    const auto path = dir.write("a.h5", bytes);
    EXPECT_THAT(message_of([&] { build_dataset({Hdf5Config{.path = path}})->read(0, sample); }),
                HasSubstr("the file is damaged"))
        << bit;
    first[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

// 4 GiB of zeros that nobody wrote, in a file of some kilobytes.
TEST(Hdf5Test, WhatUnpacksToTooMuchIsRefused) {
  const TempDir dir;
  const auto path = dir.write("a.h5", testing::golden("file.hdf5_empty", "data_checksums").bytes);
  EXPECT_THAT(message_of([&] { build_dataset({Hdf5Config{.path = path}}); }),
              HasSubstr("raise max_unpacked_bytes"));
}

#else

TEST(Hdf5Test, BuildsWithoutItSaySo) {
  EXPECT_THAT(message_of<ConfigError>([] { build_dataset({Hdf5Config{.path = "a.h5"}}); }),
              HasSubstr("built without HDF5"));
}

#endif

}  // namespace
}  // namespace fovea::data
