#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/data/volume/nifti_file.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::cut;
using ::testing::ElementsAre;
using testing::golden;
using testing::golden_file;
using testing::golden_names;
using testing::golden_values;
using testing::gzip;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;
using testing::with_number;

Volume volume_of(const StoredVolume& stored) {
  Volume volume;
  convert_volume(stored, volume);
  return volume;
}

// nibabel's array [x, y, z, c] as [c, x, y, z].
std::vector<float> channels_first(const std::vector<float>& values, int64_t channels) {
  std::vector<float> moved(values.size());
  const int64_t voxels = static_cast<int64_t>(values.size()) / channels;
  for (int64_t i = 0; i < voxels; ++i) {
    for (int64_t c = 0; c < channels; ++c) moved[c * voxels + i] = values[i * channels + c];
  }
  return moved;
}

void expect_affine(const Affine& affine, const std::string& name) {
  const auto expected = golden_values<double>(name);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(affine[i / 4][i % 4], expected[i], 1e-5) << name << " " << i;
}

// Every type, both byte orders, scaling, sform, qform, frames, NIfTI-2: equal to get_fdata(), bit
// by bit.
TEST(NiftiTest, ReadsWhatNibabelReads) {
  const TempDir dir;
  int count = 0;
  for (const auto& parts : golden_names("file.nifti", "data_volumes")) {
    const std::string& name = parts[2];
    if (name == "packed") continue;
    const auto path = dir.write(name + ".nii", golden_file("nifti." + name));
    const auto stored = read_nifti(path);
    const auto volume = volume_of(stored);
    EXPECT_EQ(volume.values,
              channels_first(golden_values<float>("values." + name), volume.channels))
        << name;
    if (name != "flat") expect_affine(stored.affine, "affine." + name);
    const auto spacing = golden_values<double>("spacing." + name);
    for (size_t i = 0; i < 3 && name != "flat"; ++i)
      EXPECT_NEAR(volume.spacing[i], spacing[i], 1e-5) << name;
    ++count;
  }
  EXPECT_EQ(count, 28);
}

TEST(NiftiTest, AxesAreThoseOfNibabel) {
  const TempDir dir;
  const auto open = [&](const std::string& name, const ScanOptions& options = {}) {
    return volume_of(read_nifti(dir.write(name, golden_file("nifti." + name)), options));
  };
  EXPECT_EQ(open("int16_little").size, (VolumeSize{5, 4, 3}));
  EXPECT_EQ(open("frames").channels, 3);
  EXPECT_EQ(open("vector").channels, 3);
  EXPECT_EQ(open("flat").size, (VolumeSize{1, 4, 3}));
  const auto all = open("frames").values;
  const auto second = open("frames", {.frame = 1});
  EXPECT_EQ(second.channels, 1);
  EXPECT_TRUE(std::equal(second.values.begin(), second.values.end(), all.begin() + 24));
}

TEST(NiftiTest, CanonicalIsNibabels) {
  const TempDir dir;
  int count = 0;
  for (const auto& parts : golden_names("canonical", "data_volumes")) {
    const auto path = dir.write(parts[1] + ".nii", golden_file("nifti." + parts[1]));
    const auto stored = read_nifti(path, {.canonical = true});
    EXPECT_EQ(stored.orientation, "RAS") << parts[1];
    EXPECT_EQ(volume_of(stored).values, golden_values<float>("canonical." + parts[1])) << parts[1];
    expect_affine(stored.affine, "canonical_affine." + parts[1]);
    ++count;
  }
  EXPECT_EQ(count, 25);
  // 0.1 -1.5 / -0.8 0.2: x points to the back, y to the left.
  const auto stored = read_nifti(dir.write("a", golden_file("nifti.int16_little")));
  EXPECT_EQ(stored.orientation, "PLS");
}

TEST(NiftiTest, ReadsGzip) {
  const TempDir dir;
  const auto plain = read_nifti(dir.write("a.nii", golden_file("nifti.int16_little")));
  const auto packed = read_nifti(dir.write("a.nii.gz", golden_file("nifti.packed")));
  EXPECT_EQ(volume_of(plain).values, volume_of(packed).values);
}

// Larger than a block of the conversion along every axis.
TEST(NiftiTest, WritesAndReadsBack) {
  const TempDir dir;
  Volume volume{.channels = 2, .size = {70, 3, 37}, .values = {}};
  for (int64_t i = 0; i < 2 * volume.size.voxels(); ++i)
    volume.values.push_back(static_cast<float>(i) * 0.5F - 7);
  Affine affine = affine_of_spacing({0.5, 2, 3});
  affine[1][3] = -4;
  for (const char* name : {"a.nii", "b.nii.gz"}) {
    write_nifti(dir.file(name), volume, affine);
    const auto stored = read_nifti(dir.file(name));
    const auto back = volume_of(stored);
    EXPECT_EQ(back.values, volume.values);
    EXPECT_EQ(back.channels, 2);
    EXPECT_EQ(back.size, volume.size);
    EXPECT_THAT(back.spacing, ElementsAre(0.5, 2, 3));
    EXPECT_EQ(stored.affine, affine);
  }
}

TEST(NiftiTest, WritesLabels) {
  const TempDir dir;
  const LabelMap labels{.size = {2, 1, 3}, .classes = {0, 1, -1, 3, 2, 0}};
  write_nifti(dir.file("a.nii"), labels, affine_of_spacing({1, 1, 1}),
              {.label_offset = 1, .ignore_value = 0});
  EXPECT_THAT(volume_of(read_nifti(dir.file("a.nii"))).values, ElementsAre(1, 2, 0, 4, 3, 1));
  LabelMap back;
  convert_labels(read_nifti(dir.file("a.nii")),
                 {.offset = 1, .num_classes = 4, .ignore_values = {0}}, back);
  EXPECT_EQ(back.classes, labels.classes);
  const LabelMap large{.size = {1, 1, 2}, .classes = {70000, 1}};
  write_nifti(dir.file("b.nii"), large, affine_of_spacing({1, 1, 1}));
  EXPECT_THAT(volume_of(read_nifti(dir.file("b.nii"))).values, ElementsAre(70000, 1));
}

class NiftiBadInputTest : public ::testing::Test {
 protected:
  std::string error_of(const std::vector<uint8_t>& bytes) {
    return message_of([&] { read_nifti(dir_.write("a.nii", bytes)); });
  }
  TempDir dir_;
  const std::vector<uint8_t> good_ = golden_file("nifti.int16_little");  // [5, 4, 3]
};

TEST_F(NiftiBadInputTest, Truncated) {
  EXPECT_THAT(error_of({}), HasSubstr("0 bytes are too few for a NIfTI header"));
  EXPECT_THAT(error_of(cut(good_, good_.size() - 347)), HasSubstr("347 bytes are too few"));
  EXPECT_THAT(error_of(cut(good_, 1)),
              AllOf(HasSubstr("announces 120 bytes"), HasSubstr("truncated")));
  EXPECT_THAT(error_of(cut(golden_file("nifti.nifti2"), 180)), HasSubstr("header is truncated"));
  EXPECT_THAT(error_of(cut(gzip(good_), 9)), HasSubstr("gzip stream is truncated"));
  EXPECT_THAT(error_of(gzip(cut(good_, 1))), HasSubstr("ends 119 bytes into the 120 bytes"));
}

TEST_F(NiftiBadInputTest, DamagedGzip) {
  auto packed = gzip(good_);
  packed[packed.size() - 6] ^= 1;  // the checksum
  EXPECT_THAT(error_of(packed), HasSubstr("damaged gzip stream"));
}

TEST_F(NiftiBadInputTest, WrongMagic) {
  EXPECT_THAT(error_of(with_number(good_, 0, int32_t{349})), HasSubstr("its first number is 349"));
  EXPECT_THAT(error_of(with_number(good_, 344, 'x')), HasSubstr("its magic is not"));
  auto pair = good_;
  std::memcpy(pair.data() + 344, "ni1", 4);
  EXPECT_THAT(error_of(pair), HasSubstr("a pair of files"));
}

TEST_F(NiftiBadInputTest, Sizes) {
  EXPECT_THAT(error_of(with_number(good_, 40, int16_t{0})), HasSubstr("0 dimensions"));
  EXPECT_THAT(error_of(with_number(good_, 40, int16_t{8})), HasSubstr("8 dimensions"));
  EXPECT_THAT(error_of(with_number(good_, 42, int16_t{0})), HasSubstr("sizes 0 x 4 x 3"));
  EXPECT_THAT(error_of(with_number(good_, 44, int16_t{-4})), HasSubstr("sizes 5 x -4 x 3"));
  auto huge = good_;
  for (size_t axis = 0; axis < 3; ++axis) huge = with_number(huge, 42 + 2 * axis, int16_t{32767});
  EXPECT_THAT(error_of(huge), HasSubstr("product of at most"));
  const auto overflow = with_number(with_number(golden_file("nifti.nifti2"), 24, int64_t{1} << 40),
                                    32, int64_t{1} << 40);
  EXPECT_THAT(error_of(overflow), HasSubstr("product of at most"));
}

// What a small file announces is refused before memory is taken for it.
TEST_F(NiftiBadInputTest, Bombs) {
  auto bytes = good_;
  for (size_t axis = 0; axis < 3; ++axis) bytes = with_number(bytes, 42 + 2 * axis, int16_t{1600});
  EXPECT_THAT(error_of(bytes), HasSubstr("announces 8192000000 bytes of data at offset 352"));
  EXPECT_THAT(error_of(gzip(bytes)), HasSubstr("announces 8192000000 bytes of data"));
  auto longer = good_;
  longer.resize(good_.size() + 5000);
  EXPECT_THAT(error_of(longer), HasSubstr("more bytes than its header describes"));
}

TEST_F(NiftiBadInputTest, TypesOffsetAndScaling) {
  EXPECT_THAT(error_of(with_number(good_, 70, int16_t{128})), HasSubstr("data type 128 (RGB)"));
  EXPECT_THAT(error_of(with_number(good_, 70, int16_t{32})), HasSubstr("complex64"));
  EXPECT_THAT(error_of(with_number(good_, 70, int16_t{77})), HasSubstr("77 (unknown)"));
  EXPECT_THAT(error_of(with_number(good_, 108, 0.0F)), HasSubstr("data at offset 0"));
  EXPECT_THAT(error_of(with_number(good_, 108, 352.5F)), HasSubstr("data at offset 352.5"));
  EXPECT_THAT(error_of(with_number(good_, 108, std::nanf(""))), HasSubstr("data at offset nan"));
  EXPECT_THAT(error_of(with_number(with_number(good_, 112, 2.0F), 116, std::nanf(""))),
              HasSubstr("scl_slope 2 with scl_inter nan"));
  EXPECT_THAT(error_of(with_number(good_, 280, std::nanf(""))),
              HasSubstr("the sform holds values that are not finite"));
}

TEST_F(NiftiBadInputTest, NanIsCountedAndNamed) {
  auto bytes = golden_file("nifti.float32_little");
  // x is fastest: element 1 + 5 * (2 + 4 * 1) is [1, 2, 1].
  bytes = with_number(bytes, 352 + 4 * 31, std::numeric_limits<float>::quiet_NaN());
  bytes = with_number(bytes, 352 + 4 * 59, std::numeric_limits<float>::infinity());
  const auto path = dir_.write("nan.nii", bytes);
  EXPECT_THAT(message_of([&] { volume_of(read_nifti(path)); }),
              AllOf(HasSubstr("nan.nii: 2 of 60 values"),
                    HasSubstr("the first at [0, 1, 2, 1] (channel, D, H, W)")));
}

TEST_F(NiftiBadInputTest, NoSuchFile) {
  EXPECT_THAT(message_of([&] { read_nifti(dir_.file("none.nii")); }),
              HasSubstr("cannot open the file"));
  EXPECT_THAT(message_of([&] { read_nifti(dir_.path()); }), HasSubstr("a folder"));
  ASSERT_EQ(mkfifo(dir_.file("pipe.nii").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] { read_nifti(dir_.file("pipe.nii")); }),
              HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace fovea::data
