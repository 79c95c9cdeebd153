#include "fovea/data/datasets/volume_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/volume/nifti.h"
#include "fovea/files/glob.h"
#include "fovea/files/npy.h"
#include "tests/data/golden_files.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::golden_file;
using testing::golden_values;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

const Affine kUnit = affine_of_spacing({1, 1, 1});

Volume ramp(VolumeSize size, float first) {
  Volume volume{.channels = 1, .size = size, .values = {}};
  for (int64_t i = 0; i < size.voxels(); ++i)
    volume.values.push_back(first + static_cast<float>(i));
  return volume;
}

// Two cases of two modalities [2, 3, 4] with masks of classes 0 to 2.
void write_cases(const TempDir& dir) {
  for (int i = 0; i < 2; ++i) {
    const auto name = [&](const char* pattern) {
      return dir.file(fmt::format(fmt::runtime(pattern), i));
    };
    write_nifti(name("imagesTr/case{}_0000.nii.gz"), ramp({2, 3, 4}, 100.0F * i), kUnit);
    write_nifti(name("imagesTr/case{}_0001.nii.gz"), ramp({2, 3, 4}, 1000), kUnit);
    LabelMap mask{.size = {2, 3, 4}, .classes = std::vector<int32_t>(24, i)};
    mask.classes[5] = 2;
    write_nifti(name("labelsTr/case{}.nii.gz"), mask, kUnit);
  }
}

NiftiConfig config_of(const TempDir& dir) {
  NiftiConfig config;
  config.path = dir.path();
  config.images = {"imagesTr/*_0000.nii.gz", "imagesTr/*_0001.nii.gz"};
  config.masks = "labelsTr/*.nii.gz";
  config.num_classes = 3;
  return config;
}

TEST(NiftiDatasetTest, ModalitiesAndMasks) {
  const TempDir dir;
  write_cases(dir);
  const auto dataset = build_dataset({config_of(dir)});
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->form(), SampleForm::kVolume);
  EXPECT_TRUE(dataset->has_masks());
  EXPECT_EQ(dataset->num_classes(), 3);
  EXPECT_THAT(dataset->describe(1), HasSubstr("case1_0000.nii.gz"));
  Sample sample;
  dataset->read(0, sample);
  dataset->read(1, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_EQ(sample.volume().size, (VolumeSize{2, 3, 4}));
  EXPECT_EQ(sample.volume().values[0], 100);
  EXPECT_EQ(sample.volume().values[24], 1000);
  EXPECT_EQ(sample.mask.size, sample.volume().size);
  EXPECT_EQ(sample.mask.classes[4], 1);
  EXPECT_EQ(sample.mask.classes[5], 2);
  EXPECT_EQ(sample.label, -1);
  EXPECT_THROW(dataset->read(2, sample), Error);
}

TEST(NiftiDatasetTest, ReadsLists) {
  const TempDir dir;
  write_cases(dir);
  dir.write("list.csv",
            "path,label,mask\n"
            "imagesTr/case1_0000.nii.gz;imagesTr/case1_0001.nii.gz,bad,\n"
            "imagesTr/case0_0000.nii.gz;imagesTr/case0_0001.nii.gz,0,\n");
  NiftiConfig config;
  config.path = dir.path();
  config.list = "list.csv";
  config.class_names = {"good", "bad"};
  const auto dataset = build_dataset({config});
  Sample sample;
  dataset->read(0, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_EQ(sample.volume().values[0], 100);
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(dataset->num_classes(), 2);
  EXPECT_FALSE(dataset->has_masks());
  dir.write("list.jsonl",
            "{\"path\": \"imagesTr/case0_0000.nii.gz\", \"mask\": \"labelsTr/case0.nii.gz\"}\n");
  config.list = "list.jsonl";
  config.class_names = {};
  config.num_classes = 3;
  const auto masked = build_dataset({config});
  masked->read(0, sample);
  EXPECT_EQ(sample.mask.classes[5], 2);
  EXPECT_EQ(sample.label, -1);
}

TEST(NiftiDatasetTest, FramesAsSamplesOrChannels) {
  const TempDir dir;
  dir.write("a.nii", golden_file("nifti.frames"));  // [4, 3, 2] and three frames
  NiftiConfig config;
  config.path = dir.path();
  Sample sample;
  const auto together = build_dataset({config});
  together->read(0, sample);
  EXPECT_EQ(sample.volume().channels, 3);
  const auto all = sample.volume().values;
  config.frames = "samples";
  const auto apart = build_dataset({config});
  ASSERT_EQ(apart->size(), 3);
  apart->read(2, sample);
  EXPECT_EQ(sample.volume().channels, 1);
  EXPECT_EQ(sample.volume().values, std::vector<float>(all.begin() + 48, all.end()));
  EXPECT_THAT(apart->describe(2), HasSubstr("a.nii[2]"));
}

TEST(NiftiDatasetTest, FilesThatDoNotLieOverEachOther) {
  const TempDir dir;
  write_cases(dir);
  const auto dataset = build_dataset({config_of(dir)});
  Sample sample;
  write_nifti(dir.file("labelsTr/case0.nii.gz"),
              LabelMap{.size = {2, 4, 3}, .classes = std::vector<int32_t>(24)}, kUnit);
  EXPECT_THAT(message_of([&] { dataset->read(0, sample); }),
              AllOf(HasSubstr("labelsTr/case0.nii.gz: 2 x 4 x 3 voxels"), HasSubstr("2 x 3 x 4")));
  Affine flipped = kUnit;
  flipped[0][0] = -1;
  write_nifti(dir.file("imagesTr/case1_0001.nii.gz"), ramp({2, 3, 4}, 0), flipped);
  EXPECT_THAT(message_of([&] { dataset->read(1, sample); }),
              HasSubstr("its axes point to LAS, those of"));
}

TEST(NiftiDatasetTest, LabelsOutOfRange) {
  const TempDir dir;
  write_cases(dir);
  auto config = config_of(dir);
  config.num_classes = 2;
  Sample sample;
  EXPECT_THAT(message_of([&] { build_dataset({config})->read(0, sample); }),
              HasSubstr("case0.nii.gz: the number 2 at [0, 0, 1, 1]"));
  config.ignore_values = {2};
  build_dataset({config})->read(0, sample);
  EXPECT_EQ(sample.mask.classes[5], -1);
}

TEST(NiftiDatasetTest, MissingFiles) {
  const TempDir dir;
  auto config = config_of(dir);
  const auto error = [&] { return message_of([&] { build_dataset({config}); }); };
  EXPECT_THAT(error(), HasSubstr("no file matches imagesTr/*_0000.nii.gz"));
  write_cases(dir);
  std::filesystem::remove(dir.file("labelsTr/case1.nii.gz"));
  EXPECT_THAT(error(), AllOf(HasSubstr("case1_0000.nii.gz: no file of labelsTr/*.nii.gz"),
                             HasSubstr("\"case1\"")));
  config.masks = "";
  std::filesystem::remove(dir.file("imagesTr/case0_0000.nii.gz"));
  EXPECT_THAT(error(), HasSubstr("2 files match imagesTr/*_0001.nii.gz, but 1 match"));
  config.list = "none.csv";
  config.images = {};
  EXPECT_THAT(error(), HasSubstr("none.csv"));
  dir.write("none.csv", "path,label\na.nii,1\nb.nii,\n");
  EXPECT_THAT(error(), HasSubstr("none.csv:3: 1 image(s), no mask, no label; expected"));
  dir.write("none.csv", "path,label\na.nii,cat\n");
  EXPECT_THAT(error(), HasSubstr("label \"cat\""));
  config.path = dir.file("nowhere");
  EXPECT_THAT(error(), HasSubstr("no such folder"));
}

TEST(NiftiDatasetTest, ConfigIsChecked) {
  NiftiConfig config;
  config.images = {"*_*.nii", "*.nii"};
  config.masks = "*.nii";
  config.list = "a.csv";
  ConfigIssues issues;
  config.validate(issues);
  std::string text;
  for (const auto& issue : issues.all()) text += issue.key + ": " + issue.message + "\n";
  EXPECT_THAT(text, AllOf(HasSubstr("list: given together"), HasSubstr("images: \"*.nii\" and"),
                          HasSubstr("masks: \"*.nii\" and"), HasSubstr("num_classes: missing")));
}

TEST(BasicCtTest, IsUpstreams) {
  const TempDir dir;
  for (const char* name : {"7", "12", "30"}) {
    write_nifti(dir.file(fmt::format("imagesTr/image_{}.nii", name)), ramp({2, 2, 3}, -5), kUnit);
    LabelMap mask{.size = {2, 2, 3}, .classes = {0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0}};
    write_nifti(dir.file(fmt::format("labelsTr/label_{}.nii", name)), mask, kUnit,
                {.label_offset = 1});
  }
  BasicCtConfig config{.path = dir.path()};
  const auto dataset = build_dataset({config});
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->num_classes(), 4);
  Sample sample;
  dataset->read(0, sample);
  EXPECT_THAT(dataset->describe(0), HasSubstr("image_12.nii"));
  for (int i = 0; i < 12; ++i)  // UCF-VIT: (x - min) / (max - min) in float32
    EXPECT_EQ(sample.volume().values[i], static_cast<float>(i) / 11.0F);
  EXPECT_THAT(std::vector<int32_t>(sample.mask.classes.begin(), sample.mask.classes.begin() + 5),
              ElementsAre(0, 1, 2, 3, 0));
  config.end = 0.67;
  EXPECT_EQ(build_dataset({config})->size(), 2);
  config.masks = false;
  EXPECT_FALSE(build_dataset({config})->has_masks());
  config.masks = true;
  config.end = 1;
  config.label_offset = 2;
  EXPECT_THAT(message_of([&] { build_dataset({config})->read(0, sample); }),
              HasSubstr("the number 1 at"));
  std::filesystem::remove(dir.file("labelsTr/label_7.nii"));
  EXPECT_THAT(message_of([&] { build_dataset({config}); }),
              HasSubstr("image_7.nii: found neither label_7.nii nor label_7.nii.gz"));
}

std::vector<uint8_t> bytes_of_values(const std::vector<uint16_t>& values, bool is_big) {
  std::vector<uint8_t> bytes;
  for (const uint16_t value : values) {
    const auto high = static_cast<uint8_t>(value >> 8), low = static_cast<uint8_t>(value);
    bytes.push_back(is_big ? high : low);
    bytes.push_back(is_big ? low : high);
  }
  return bytes;
}

TEST(RawTest, ReadsHeaderlessFiles) {
  const TempDir dir;
  // UCF-VIT's turbulence files: one variable a file, rows that end in padding.
  for (const char* name : {"u", "v"}) {
    auto bytes = std::vector<uint8_t>(3, 0xEE);
    const auto numbers = bytes_of_values({1, 2, 900, 900, 3, 4, 900, 900, 5, 6, 900, 900}, true);
    bytes.insert(bytes.end(), numbers.begin(), numbers.end());
    dir.write(fmt::format("t0.{}.raw", name), bytes);
  }
  RawConfig config;
  config.path = dir.path();
  config.images = {"*.u.raw", "*.v.raw"};
  config.dtype = "uint16";
  config.byte_order = "big";
  config.shape = {1, 3, 4};
  config.keep = {1, 3, 2};
  config.offset = 3;
  config.spacing = {2, 1, 0.5};
  const auto dataset = build_dataset({config});
  Sample sample;
  dataset->read(0, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_EQ(sample.volume().size, (VolumeSize{1, 3, 2}));
  EXPECT_THAT(sample.volume().values, ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(sample.volume().spacing, ElementsAre(2, 1, 0.5));
  config.offset = 2;
  EXPECT_THAT(message_of([&] { build_dataset({config}); }),
              HasSubstr("t0.u.raw: 27 bytes; expected 26: 1 x 3 x 4 of uint16 behind 2 bytes"));
}

TEST(RawTest, ManySamplesAFileWithMasks) {
  const TempDir dir;
  dir.write("a.raw", std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  dir.write("a.mask", std::vector<uint8_t>{0, 1, 0, 1, 1, 1});
  RawConfig config;
  config.path = dir.path();
  config.masks = "*.mask";
  config.num_classes = 2;
  config.dtype = "uint8";
  config.axes = "NHWC";
  config.shape = {3, 1, 2, 2};
  const auto dataset = build_dataset({config});
  ASSERT_EQ(dataset->size(), 3);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_THAT(sample.volume().values, ElementsAre(4, 6, 5, 7));
  EXPECT_THAT(sample.mask.classes, ElementsAre(0, 1));
}

TEST(RawTest, FilesThatShrinkAndNan) {
  const TempDir dir;
  const auto path = dir.write("a.raw", std::vector<uint8_t>(1 << 16));
  RawConfig config;
  config.path = dir.path();
  config.shape = {1, 128, 128};
  const auto dataset = build_dataset({config});
  Sample sample;
  dataset->read(0, sample);
  std::filesystem::resize_file(path, 100);
  EXPECT_THROW(dataset->read(0, sample), DataError);
  std::vector<uint8_t> bytes(1 << 16);
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + 4 * 130, &nan, 4);
  dir.write("a.raw", bytes);
  EXPECT_THAT(message_of([&] { build_dataset({config})->read(0, sample); }),
              HasSubstr("1 of 16384 values are NaN or infinite, the first at [0, 0, 1, 2]"));
}

TEST(RawTest, ConfigIsChecked) {
  RawConfig config;
  config.shape = {int64_t{1} << 40, int64_t{1} << 40, 2};
  config.keep = {1, 2};
  config.axes = "DHH";
  config.spacing = {1, 0};
  ConfigIssues issues;
  config.validate(issues);
  std::string text;
  for (const auto& issue : issues.all()) text += issue.key + ": " + issue.message + "\n";
  EXPECT_THAT(text, AllOf(HasSubstr("axes: \"DHH\""), HasSubstr("shape: 1099511627776 x"),
                          HasSubstr("keep: 2 sizes for 3"), HasSubstr("spacing: expected three"),
                          HasSubstr("spacing: 0; expected more than 0")));
}

TEST(NpyDatasetTest, ReadsOneArrayAFile) {
  const TempDir dir;
  std::vector<int16_t> numbers(24);
  for (size_t i = 0; i < 24; ++i) numbers[i] = static_cast<int16_t>(i);
  write_npy(dir.file("a.npy"), "<i2", {2, 3, 4}, std::as_bytes(std::span(numbers)));
  NpyConfig config;
  config.path = dir.path();
  Sample sample;
  build_dataset({config})->read(0, sample);
  EXPECT_EQ(sample.volume().size, (VolumeSize{2, 3, 4}));
  EXPECT_EQ(sample.volume().values[23], 23);
  config.axes = "WHD";  // numpy.swapaxes(x, 0, 2)
  config.min_max = true;
  build_dataset({config})->read(0, sample);
  EXPECT_EQ(sample.volume().size, (VolumeSize{4, 3, 2}));
  EXPECT_EQ(sample.volume().values[1], 12.0F / 23);
  config.axes = "CDHW";
  EXPECT_THAT(message_of([&] { build_dataset({config})->read(0, sample); }),
              HasSubstr("\"CDHW\" for 3 dimensions"));
  dir.write("a.npy", testing::cut(std::vector<uint8_t>(200), 10));
  EXPECT_THAT(message_of([&] { build_dataset({config})->read(0, sample); }),
              HasSubstr("not a .npy file"));
}

TEST(DicomDatasetTest, FoldersAreSamples) {
  const TempDir dir;
  for (int i = 0; i < 4; ++i) {
    dir.write(fmt::format("scans/a/{}.dcm", i), golden_file(fmt::format("dicom.rle.{}", i)));
    dir.write(fmt::format("scans/b/{}.dcm", i), golden_file(fmt::format("dicom.bytes.{}", i)));
  }
  std::vector<uint8_t> classes(4 * 5 * 3, 1);
  for (const char* name : {"a", "b"}) {
    write_npy(dir.file(fmt::format("masks/{}.npy", name)), "|u1", {4, 5, 3},
              std::as_bytes(std::span(classes)));
  }
  DicomConfig config;
  config.path = dir.path();
  config.images = {"scans/*"};
  config.masks = "masks/*.npy";
  config.num_classes = 2;
  const auto dataset = build_dataset({config});
  ASSERT_EQ(dataset->size(), 2);
  Sample sample;
  dataset->read(1, sample);
  EXPECT_EQ(sample.volume().values, golden_values<float>("values.dicom_bytes"));
  EXPECT_THAT(sample.mask.classes, Each(1));
  dataset->read(0, sample);
  EXPECT_EQ(sample.volume().values, golden_values<float>("values.dicom_rle"));
}

TEST(GlobTest, MatchesAndNamesStars) {
  const TempDir dir;
  for (const char* name : {"x/a_1.nii", "x/b_1.nii", "y/a_1.nii", "x/.a_1.nii", "x/a_2.txt"})
    dir.write(name, "a");
  const auto found = glob(dir.path(), "*/*_1.nii");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].stars, (std::vector<std::string>{"x", "a"}));
  EXPECT_EQ(found[2].stars, (std::vector<std::string>{"y", "a"}));
  EXPECT_EQ(glob(dir.path(), "x/a_1.nii").size(), 1u);
  EXPECT_EQ(glob(dir.path(), "z/*").size(), 0u);
  EXPECT_THAT(message_of([&] { glob(dir.path(), "../*"); }), HasSubstr("../*: a pattern"));
  EXPECT_THAT(message_of([&] { glob(dir.path(), "/etc/*"); }), HasSubstr("/etc/*: a pattern"));
}

}  // namespace
}  // namespace fovea::data
