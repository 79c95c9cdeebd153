// Volumes read by their headers and by region: the same numbers, and no more bytes than that takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/volume/nifti_file.h"
#include "fovea/files/npy.h"
#include "tests/data/dicom_writer.h"
#include "tests/data/failing_disk.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using testing::bytes_read;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

const Affine kFlipped = {{{0, -2, 0, 9}, {1, 0, 0, -3}, {0, 0, -1, 4}}};  // "ALI", to be turned

Volume noise(VolumeSize size, uint64_t seed) {
  Volume volume{.channels = 1, .size = size, .values = {}};
  auto random = testing::test_stream(seed);
  for (int64_t i = 0; i < size.voxels(); ++i)
    volume.values.push_back(static_cast<float>(random.uniform()));
  return volume;
}

LabelMap noisy_mask(VolumeSize size) {
  LabelMap mask{.size = size, .classes = {}};
  for (int64_t i = 0; i < size.voxels(); ++i)
    mask.classes.push_back(static_cast<int32_t>(i * 7 % 5));
  return mask;
}

// Every box of a few, in every corner and in the middle, is what the whole volume has there.
void expect_regions_of_whole(const Dataset& dataset) {
  Sample whole, part, expected;
  dataset.read(0, whole);
  const VolumeSize size = whole.volume().size;
  EXPECT_EQ(dataset.size_of(0), size);
  EXPECT_EQ(dataset.channels_of(0), whole.volume().channels);
  for (const VolumeSize box : {VolumeSize{1, 1, 1}, VolumeSize{2, 3, 2}, size}) {
    for (int corner = 0; corner < 9; ++corner) {
      VolumeRegion region{.start = {}, .size = box, .whole = size};
      const std::array<int64_t, 3> room = {size.depth - box.depth, size.height - box.height,
                                           size.width - box.width};
      for (size_t axis = 0; axis < 3; ++axis)
        region.start[axis] = corner == 8 ? room[axis] / 2 : (corner >> axis & 1) * room[axis];
      ASSERT_TRUE(dataset.read_region(0, region, part));
      extract_tile(whole, {region.start, box, box}, expected);
      EXPECT_EQ(part.volume().values, expected.volume().values);
      EXPECT_EQ(part.volume().size, box);
      EXPECT_EQ(part.volume().spacing, whole.volume().spacing);
      EXPECT_EQ(part.mask.classes, expected.mask.classes);
      EXPECT_EQ(part.label, whole.label);
    }
  }
}

TEST(VolumeRegionsTest, OfNifti) {
  const TempDir dir;
  const VolumeSize size = {7, 5, 6};
  write_nifti(dir.file("x/a.nii"), noise(size, 1), kFlipped);
  write_nifti(dir.file("y/a.nii"), noisy_mask(size), kFlipped);
  for (const char* orientation : {"as_stored", "canonical"}) {
    NiftiConfig config;
    config.path = dir.path();
    config.images = {"x/*.nii", "x/*.nii"};
    config.masks = "y/*.nii";
    config.num_classes = 5;
    config.orientation = orientation;
    expect_regions_of_whole(*build_dataset({config}));
  }
}

TEST(VolumeRegionsTest, OfArraysInAnyOrder) {
  const TempDir dir;
  const auto values = noise({4, 5, 6}, 2).values;
  write_npy(dir.file("a.npy"), "<f4", {4, 5, 6}, std::as_bytes(std::span(values)));
  for (const char* axes : {"DHW", "WHD", "CHW", "HWC", "HDW"}) {
    NpyConfig config;
    config.path = dir.path();
    config.axes = axes;
    config.min_max = true;
    const auto dataset = build_dataset({config});
    if (dataset->size_of(0).depth > 1) expect_regions_of_whole(*dataset);
  }
}

TEST(VolumeRegionsTest, OfRawWithPaddingAndSamples) {
  const TempDir dir;
  std::vector<uint8_t> bytes(10);  // in front of the numbers
  for (int i = 0; i < 3 * 5 * 6 * 7 * 2; ++i) bytes.push_back(static_cast<uint8_t>(i % 251));
  dir.write("a.raw", bytes);
  RawConfig config;
  config.path = dir.path();
  config.dtype = "uint16";
  config.byte_order = "big";
  config.axes = "WNHD";
  config.shape = {3, 5, 6, 7};
  config.keep = {3, 5, 4, 6};
  config.offset = 10;
  const auto dataset = build_dataset({config});
  EXPECT_EQ(dataset->size(), 5);
  expect_regions_of_whole(*dataset);
}

// basic_ct's numbers go by the minimum and maximum of the whole volume, which a region has not.
TEST(VolumeRegionsTest, OfVolumesScaledByTheirRange) {
  const TempDir dir;
  const VolumeSize size = {6, 5, 4};
  write_nifti(dir.file("imagesTr/image_1.nii"), noise(size, 3), affine_of_spacing({1, 1, 1}));
  const auto dataset = build_dataset({BasicCtConfig{.path = dir.path(), .masks = false}});
  Sample first, again;
  const VolumeRegion region{.start = {2, 1, 0}, .size = {2, 2, 2}, .whole = size};
  ASSERT_TRUE(dataset->read_region(0, region, first));
  const int64_t before = bytes_read();
  ASSERT_TRUE(dataset->read_region(0, region, again));
  EXPECT_LT(bytes_read() - before, 352 + 6 * 5 * 4 * 4 + 400);  // once: the range is kept
  EXPECT_EQ(first.volume().values, again.volume().values);
  expect_regions_of_whole(*dataset);
}

TEST(VolumeRegionsTest, ATileCostsItsOwnBytes) {
  const TempDir dir;
  constexpr int64_t kSide = 128, kBytes = kSide * kSide * kSide * 4;
  const auto volume = noise({kSide, kSide, kSide}, 4);
  write_nifti(dir.file("a.nii"), volume, kFlipped);
  NiftiConfig config;
  config.path = dir.path();
  const auto tiled = TiledDataset(build_dataset({config}), {.tile_size = {32, 32, 32}});
  Sample tile;
  const int64_t before = bytes_read();
  tiled.read(17, tile);
  // Rows of 128 bytes lie 512 apart, so that they are read with what is between them.
  EXPECT_LT(bytes_read() - before, kBytes / 16 + 4096);
  EXPECT_GE(bytes_read() - before, kBytes / 64);
}

TEST(VolumeRegionsTest, SizesCostHeaders) {
  const TempDir dir;
  const auto volume = noise({40, 50, 60}, 5);
  const auto bytes_of_size = [&](const DatasetConfig& config) {
    const auto dataset = build_dataset(config);
    const int64_t before = bytes_read();
    EXPECT_EQ(dataset->size_of(0).voxels(), 120'000);
    return bytes_read() - before;
  };
  write_nifti(dir.file("n/a.nii.gz"), volume, kFlipped);
  ASSERT_GT(fs::file_size(dir.file("n/a.nii.gz")), 300'000u);
  NiftiConfig nifti;
  nifti.path = dir.path() + "/n";
  EXPECT_LT(bytes_of_size({nifti}), 5000);
  write_npy(dir.file("p/a.npy"), "<f4", {40, 50, 60}, std::as_bytes(std::span(volume.values)));
  NpyConfig npy;
  npy.path = dir.path() + "/p";
  EXPECT_LT(bytes_of_size({npy}), 1100);
  for (int64_t slice = 0; slice < 3; ++slice) {
    dir.write(fmt::format("d/s/{}.dcm", slice),
              testing::dicom_bytes({.rows = 200,
                                    .columns = 200,
                                    .position = {0, 0, static_cast<double>(slice)},
                                    .orientation = {1, 0, 0, 0, 1, 0},
                                    .pixels = std::vector<uint16_t>(40'000, 7)}));
  }
  DicomConfig dicom;
  dicom.path = dir.path() + "/d";
  EXPECT_LT(bytes_of_size({dicom}), 3 * 8192 + 1);
}

// A header that is longer than what is read of a file at first.
TEST(VolumeRegionsTest, LongDicomHeaders) {
  const TempDir dir;
  testing::SliceToWrite slice{.rows = 4, .columns = 5, .pixels = std::vector<uint16_t>(20, 1)};
  std::string bytes = testing::dicom_bytes(slice);
  std::string element;
  testing::add_element(element, 0x19, 0x10, "OW", std::string(30'000, 'x'));
  const size_t rows = bytes.find(std::string("\x28\0\x02\0US", 6));
  ASSERT_NE(rows, std::string::npos);
  bytes.insert(rows, element);
  dir.write("s/a.dcm", bytes);
  DicomConfig config;
  config.path = dir.path();
  EXPECT_EQ(build_dataset({config})->size_of(0), (VolumeSize{1, 4, 5}));
  fs::resize_file(dir.file("s/a.dcm"), bytes.size() - 4);
  EXPECT_THAT(message_of([&] { build_dataset({config})->size_of(0); }),
              HasSubstr("ends within 40 bytes of pixels"));
}

TEST(VolumeRegionsTest, BadInputIsNamed) {
  const TempDir dir;
  const VolumeSize size = {32, 32, 32};
  write_nifti(dir.file("a.nii"), noise(size, 6), kFlipped);
  NiftiConfig config;
  config.path = dir.path();
  const auto read_tile = [&](const TiledDataset& tiled) {
    return message_of([&] {
      Sample tile;
      tiled.read(7, tile);
    });
  };
  const TilingConfig tiles{.tile_size = {16, 16, 16}};
  const TiledDataset tiled(build_dataset({config}), tiles);
  write_nifti(dir.file("a.nii"), noise({32, 32, 31}, 6), kFlipped);
  EXPECT_THAT(read_tile(tiled), HasSubstr("a.nii: 32 x 32 x 31 voxels, but 32 x 32 x 32 when"));
  write_nifti(dir.file("a.nii"), noise(size, 6), kFlipped);
  fs::resize_file(dir.file("a.nii"), 100'000);
  EXPECT_THAT(read_tile(tiled), HasSubstr("a.nii: the header announces 131072 bytes of data"));
  EXPECT_THAT(message_of([&] { TiledDataset(build_dataset({config}), tiles); }),
              HasSubstr("truncated"));
  fs::remove(dir.file("a.nii"));
  // What a gzip file lacks at its end is seen when a tile is wanted, and not at the start.
  write_nifti(dir.file("a.nii.gz"), noise(size, 6), kFlipped);
  fs::resize_file(dir.file("a.nii.gz"), 60'000);
  EXPECT_THAT(read_tile(TiledDataset(build_dataset({config}), tiles)),
              HasSubstr("a.nii.gz: the gzip stream is truncated"));
}

// The file is cut while it is open: by its header it still is what it was.
TEST(VolumeRegionsTest, AVolumeThatShrinksWhileItIsRead) {
  const TempDir dir;
  write_nifti(dir.file("a.nii"), noise({16, 16, 16}, 7), kFlipped);
  const auto file = open_nifti(dir.file("a.nii"));
  fs::resize_file(dir.file("a.nii"), 3000);
  const VolumeRegion region{.start = {8, 8, 8}, .size = {4, 4, 4}, .whole = {16, 16, 16}};
  EXPECT_THAT(message_of([&] { file->read_region(region); }),
              HasSubstr("it became shorter while it was read"));
}

// NaNs are named by where they are in the volume.
TEST(VolumeRegionsTest, PlacesAreThoseOfTheWhole) {
  const TempDir dir;
  auto volume = noise({8, 8, 8}, 8);
  volume.values[(5 * 8 + 6) * 8 + 7] = std::nanf("");
  write_npy(dir.file("a.npy"), "<f4", {8, 8, 8}, std::as_bytes(std::span(volume.values)));
  NpyConfig config;
  config.path = dir.path();
  const TiledDataset tiled(build_dataset({config}), {.tile_size = {4, 4, 4}});
  Sample tile;
  EXPECT_THAT(message_of([&] { tiled.read(7, tile); }), HasSubstr("[0, 5, 6, 7]"));
}

}  // namespace
}  // namespace fovea::data
