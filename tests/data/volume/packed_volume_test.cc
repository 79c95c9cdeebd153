#include "fovea/data/volume/packed_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/volume/nifti_file.h"
#include "fovea/data_tools/pack/pack.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

constexpr VolumeSize kVolumeSize = {9, 10, 13};

// HU-like whole numbers.
Volume scan(int64_t channels, uint64_t seed) {
  Volume volume{.channels = channels, .size = kVolumeSize, .spacing = {1.5, 0.5, 2}, .values = {}};
  auto random = testing::test_stream(seed);
  for (int64_t i = 0; i < channels * kVolumeSize.voxels(); ++i)
    volume.values.push_back(static_cast<float>(random.below(3000)) - 1000.0F);
  return volume;
}

LabelMap classes() {
  LabelMap mask{.size = kVolumeSize, .classes = {}};
  for (int64_t i = 0; i < kVolumeSize.voxels(); ++i)
    mask.classes.push_back(static_cast<int32_t>(i % 5) - 1);
  return mask;
}

PackedVolume parsed(const std::vector<uint8_t>& bytes) {
  const auto all = std::span(bytes);
  const uint64_t head =
      packed_volume_head_bytes(all.first(kPackedVolumeHeaderBytes), bytes.size(), "sample");
  return parse_packed_volume(all.first(head), bytes.size(), "sample");
}

TEST(PackedVolumeTest, KeepsTypesAndEveryBit) {
  struct Case {
    std::vector<float> values;
    ScalarType type;
  };
  for (const Case& one : {Case{{0, 255, 7}, ScalarType::kUint8},
                          {{-128, 127, 0}, ScalarType::kInt8},
                          {{-1024, 3071, 0}, ScalarType::kInt16},
                          {{0, 65535, 256}, ScalarType::kUint16},
                          {{0, -0.0F, 1}, ScalarType::kFloat32},
                          {{0, 0.5F, 1}, ScalarType::kFloat32},
                          {{0, 65536, 1}, ScalarType::kFloat32},
                          {{3e38F, -1e-40F, 1}, ScalarType::kFloat32}}) {
    for (const bool is_compressed : {false, true}) {
      const Volume volume{.channels = 1, .size = {1, 1, 3}, .values = one.values};
      const auto bytes = encode_packed_volume(volume, {}, {{2, 2, 2}, is_compressed});
      const PackedVolume packed = parsed(bytes);
      EXPECT_EQ(packed.type, one.type) << one.values[1];
      EXPECT_FALSE(packed.mask_type);
      Volume back;
      LabelMap mask;
      read_packed_region(
          packed, {.start = {}, .size = volume.size, .whole = volume.size},
          [&](const PackedChunk& chunk) {
            return std::span(bytes).subspan(chunk.offset, chunk.bytes);
          },
          "sample", back, mask);
      EXPECT_EQ(std::memcmp(back.values.data(), one.values.data(), 12), 0);
    }
  }
}

TEST(PackedVolumeTest, ARegionCostsItsChunks) {
  const Volume volume = scan(2, 1);
  const LabelMap mask = classes();
  const auto bytes = encode_packed_volume(volume, mask, {{4, 4, 4}, true});
  const PackedVolume packed = parsed(bytes);
  EXPECT_EQ(packed.type, ScalarType::kInt16);
  EXPECT_EQ(packed.mask_type, ScalarType::kInt8);
  ASSERT_EQ(packed.chunks.size(), 2u * 3 * 3 * 4);
  int chunks = 0;
  const auto read = [&](const PackedChunk& chunk) {
    ++chunks;
    return std::span(bytes).subspan(chunk.offset, chunk.bytes);
  };
  Sample whole;
  whole.become<Volume>() = volume;
  whole.mask = mask;
  for (const auto& [start, size, expected] :
       {std::tuple{std::array<int64_t, 3>{4, 4, 8}, VolumeSize{4, 4, 4}, 2},
        {{3, 3, 3}, {2, 2, 2}, 16},
        {{8, 8, 12}, {1, 2, 1}, 2},
        {{0, 0, 0}, kVolumeSize, 72}}) {
    chunks = 0;
    Sample part, cut;
    read_packed_region(packed, {start, size, kVolumeSize}, read, "sample", part.become<Volume>(),
                       part.mask);
    extract_tile(whole, {start, size, size}, cut);
    EXPECT_EQ(part.volume().values, cut.volume().values);
    EXPECT_EQ(part.mask.classes, cut.mask.classes);
    EXPECT_EQ(part.volume().spacing, volume.spacing);
    EXPECT_EQ(chunks, expected);
  }
}

// Three scans of two modalities with masks.
class PackedVolumesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Affine affine = affine_of_spacing({1, 1, 2});
    for (int i = 0; i < 3; ++i) {
      write_nifti(dir_.file(fmt::format("x/{}_a.nii.gz", i)), scan(1, 10 + i), affine);
      write_nifti(dir_.file(fmt::format("x/{}_b.nii.gz", i)), scan(1, 20 + i), affine);
      write_nifti(dir_.file(fmt::format("y/{}.nii.gz", i)), classes(), affine,
                  {.ignore_value = 200});
    }
    NiftiConfig config;
    config.path = dir_.path();
    config.images = {"x/*_a.nii.gz", "x/*_b.nii.gz"};
    config.masks = "y/*.nii.gz";
    config.num_classes = 4;
    config.ignore_values = {200};
    source_ = build_dataset({config});
    options_.out = dir_.path() + "/packed";
    options_.volumes.chunk = {4, 5, 6};
  }
  std::shared_ptr<const Dataset> packed() const {
    return build_dataset({PackedConfig{.path = options_.out}});
  }

  const TempDir dir_;
  std::shared_ptr<const Dataset> source_;
  PackOptions options_;
};

TEST_F(PackedVolumesTest, AreWhatTheyWere) {
  const auto report = pack_dataset(*source_, options_);
  EXPECT_EQ(report.samples, 3);
  const auto dataset = packed();
  ASSERT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->form(), SampleForm::kVolume);
  EXPECT_TRUE(dataset->has_masks());
  EXPECT_EQ(dataset->num_classes(), 4);
  EXPECT_EQ(dataset->size_of(1), kVolumeSize);
  EXPECT_EQ(dataset->channels_of(1), 2);
  EXPECT_THAT(dataset->describe(2), HasSubstr("x/2_a.nii.gz"));
  Sample a, b;
  for (int64_t i = 0; i < 3; ++i) {
    source_->read(i, a);
    dataset->read(i, b);
    EXPECT_EQ(a.volume().values, b.volume().values);
    EXPECT_EQ(a.volume().spacing, b.volume().spacing);
    EXPECT_EQ(a.mask.classes, b.mask.classes);
    EXPECT_EQ(a.label, b.label);
  }
  const TilingConfig tiling{.tile_size = {4, 4, 4}, .use_all_data = true};
  const TiledDataset tiles(source_, tiling), packed_tiles(dataset, tiling);
  ASSERT_EQ(tiles.size(), packed_tiles.size());
  for (int64_t i = 0; i < tiles.size(); ++i) {
    tiles.read(i, a);
    packed_tiles.read(i, b);
    EXPECT_EQ(a.volume().values, b.volume().values);
    EXPECT_EQ(a.mask.classes, b.mask.classes);
  }
}

TEST_F(PackedVolumesTest, OtherOptionsAreAnotherPacking) {
  options_.volumes.is_compressed = false;
  pack_dataset(*source_, options_);
  const auto plain = fs::file_size(options_.out + "/shard_000000.fvp");
  EXPECT_GT(plain, 3u * kVolumeSize.voxels() * (2 * 2 + 1));  // int16, int8
  EXPECT_EQ(pack_dataset(*source_, options_).resumed, 3);
  options_.volumes.is_compressed = true;
  EXPECT_THAT(message_of<ConfigError>([&] { pack_dataset(*source_, options_); }),
              HasSubstr("other options"));
  options_.out += "2";
  pack_dataset(*source_, options_);
  EXPECT_LT(fs::file_size(options_.out + "/shard_000000.fvp"), plain);
  options_.to = "wds";
  EXPECT_THAT(message_of<ConfigError>([&] { pack_dataset(*source_, options_); }),
              HasSubstr("volumes cannot stand in a WebDataset"));
}

TEST_F(PackedVolumesTest, DamageIsNamed) {
  pack_dataset(*source_, options_);
  const std::string shard = options_.out + "/shard_000000.fvp";
  const std::string whole = read_file(shard, 1 << 24);
  constexpr size_t kFirst = 32, kTable = 2 * 3 * 2 * 3 * kPackedChunkBytes;
  for (const size_t at : {kFirst + 8, kFirst + kPackedVolumeHeaderBytes + 30,
                          kFirst + kPackedVolumeHeaderBytes + kTable + 50}) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    dir_.write("packed/shard_000000.fvp", bytes);
    const auto dataset = packed();
    Sample sample;
    const std::string message = message_of([&] { dataset->read(0, sample); });
    EXPECT_THAT(message, HasSubstr("x/0_a.nii.gz"));
    EXPECT_THAT(message, ::testing::AnyOf(HasSubstr("checksum"), HasSubstr("damaged")));
    dataset->read(2, sample);
    EXPECT_THAT(
        message_of([&] {
          dataset->read_region(2, {.start = {}, .size = {1, 1, 1}, .whole = {9, 9, 9}}, sample);
        }),
        HasSubstr("9 x 10 x 13 voxels, but 9 x 9 x 9 when"));
  }
}

TEST(PackedVolumeTest, RefusesWhatCannotBe) {
  const auto bytes = encode_packed_volume(scan(1, 3), classes(), {{4, 4, 4}, true});
  const auto fault = [&](size_t at, uint8_t value, size_t size) {
    auto changed = bytes;
    changed[at] = value;
    changed.resize(size);
    return message_of([&] { parsed(changed); });
  };
  EXPECT_THAT(fault(3, 255, bytes.size()), HasSubstr("voxels in chunks"));  // channels
  EXPECT_THAT(fault(16, 0, bytes.size()), HasSubstr("voxels in chunks"));   // chunk
  EXPECT_THAT(fault(28, 99, bytes.size()), HasSubstr("types 99"));          // type
  EXPECT_THAT(fault(30, 2, bytes.size()), HasSubstr("compression 2"));
  EXPECT_THAT(fault(56, 7, bytes.size()), HasSubstr("7 chunks; expected 72"));
  EXPECT_THAT(fault(0, 1, 1000), HasSubstr("it is truncated"));
  EXPECT_THAT(fault(0, 1, bytes.size() - 1), HasSubstr("outside of the sample"));
}

}  // namespace
}  // namespace fovea::data
