#include "fovea/data/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/formats/nifti.h"
#include "fovea/data/png.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

constexpr Affine kIdentityAffine = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

std::string write_volume(const TempDir& dir, const std::string& name, float value) {
  const Volume volume{1, {2, 3, 4}, {1, 1, 1}, std::vector<float>(24, value)};
  write_nifti(dir.file(name), volume, kIdentityAffine);
  return dir.file(name);
}

TEST(InputFilesTest, ImagesAreNamedByTheirPaths) {
  const TempDir dir;
  const auto png = encode_png({1, 2, 1, {3, 200}});
  const auto path = dir.write("a b.png", std::vector<uint8_t>(png.begin(), png.end()));
  const auto files = open_input_files({path, path});
  ASSERT_EQ(files->size(), 2);
  EXPECT_EQ(files->form(), SampleForm::kImage);
  Sample sample;
  files->read(1, sample);
  EXPECT_EQ(sample.image.pixels, (std::vector<uint8_t>{3, 200}));
  EXPECT_EQ(sample.label, -1);
  EXPECT_THAT(files->describe(1), HasSubstr("a b.png"));
}

TEST(InputFilesTest, ModalitiesOfAVolumeAreItsChannels) {
  const TempDir dir;
  const auto first = write_volume(dir, "t1.nii", 1), second = write_volume(dir, "t2.nii.gz", 2);
  const auto files = open_input_files({first + ";" + second});
  ASSERT_EQ(files->size(), 1);
  EXPECT_EQ(files->form(), SampleForm::kVolume);
  Sample sample;
  files->read(0, sample);
  EXPECT_EQ(sample.volume.channels, 2);
  EXPECT_EQ(sample.volume.values.front(), 1);
  EXPECT_EQ(sample.volume.values.back(), 2);
}

TEST(InputFilesTest, ScalesAsTheSetTheModelWasTrainedOn) {
  const TempDir dir;
  Volume volume{1, {1, 1, 3}, {1, 1, 1}, {10, 20, 30}};
  write_nifti(dir.file("ct.nii"), volume, kIdentityAffine);
  const DataSectionConfig like = {BasicCtConfig{.path = "elsewhere"}};
  Sample sample;
  open_input_files({dir.file("ct.nii")}, like)->read(0, sample);
  EXPECT_EQ(sample.volume.values, (std::vector<float>{0, 0.5, 1}));
}

TEST(InputFilesTest, RefusesImagesAmongVolumes) {
  EXPECT_THAT(message_of<ConfigError>([] {
                open_input_files({"a.nii", "b.png"});
              }),
              HasSubstr("1 of 2 inputs are volumes"));
}

}  // namespace
}  // namespace fovea::data
