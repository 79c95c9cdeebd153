#include "fovea/data/datasets/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/image/png.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data/volume/dicom.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/data/dicom_writer.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
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
  read_decoded(*files, 1, sample);
  EXPECT_EQ(sample.image().pixels, (std::vector<uint8_t>{3, 200}));
  EXPECT_EQ(sample.label, -1);
  EXPECT_THAT(files->describe(1), HasSubstr("a b.png"));
}

TEST(InputFilesTest, FoldersStandForTheFilesBelowThem) {
  const TempDir dir;
  const auto png = encode_png({1, 2, 1, {3, 200}});
  for (const char* name : {"b.png", "sub/a.v2.png", ".hidden/c.png"}) dir.write(name, png);
  dir.write("notes.txt", std::string("x"));
  const auto stems = [](const std::vector<ModelInput>& inputs) {
    std::vector<std::string> all;
    for (const auto& input : inputs) all.push_back(input.stem);
    return all;
  };
  const auto images = find_input_files({dir.path(), dir.file("b.png")}, false);
  EXPECT_EQ(stems(images), (std::vector<std::string>{"b", "sub/a.v2", "b"}));
  EXPECT_EQ(images[1].path, dir.path() + "/sub/a.v2.png");
  dir.write("empty/notes.txt", std::string("x"));
  EXPECT_THAT(message_of<DataError>([&] { find_input_files({dir.path() + "/empty"}, false); }),
              HasSubstr("empty: no image (.jpg, .jpeg, .png"));
  write_volume(dir, "volumes/a.nii", 1);
  EXPECT_EQ(stems(find_input_files({dir.path() + "/volumes"}, false)),
            (std::vector<std::string>{"a"}));
  // Of a model of volumes: NIfTI files, or else folders of slices.
  dir.write("scans/1/x.dcm", std::string("x"));
  dir.write("scans/2/deep/x.dcm", std::string("x"));
  const auto series = find_input_files({dir.path() + "/scans"}, true);
  EXPECT_EQ(stems(series), (std::vector<std::string>{"1", "2/deep"}));
  EXPECT_EQ(series[1].path, dir.path() + "/scans/2/deep");
  EXPECT_EQ(stems(find_input_files({dir.path() + "/scans/1/"}, true)),
            (std::vector<std::string>{"1"}));
  const auto first = write_volume(dir, "t1.nii.gz", 1), second = write_volume(dir, "t2.nii", 2);
  EXPECT_EQ(stems(find_input_files({first + ";" + second}, true)),
            (std::vector<std::string>{"t1"}));
  dir.write("list.csv", std::string("path\nt1.nii.gz;t2.nii\n../elsewhere/x.nii\n"));
  const auto listed = find_input_files({dir.path() + "/list.csv"}, true);
  EXPECT_EQ(stems(listed), (std::vector<std::string>{"t1", "x"}));
  EXPECT_EQ(listed[0].path, first + ";" + second);
}

TEST(InputFilesTest, ModalitiesOfAVolumeAreItsChannels) {
  const TempDir dir;
  const auto first = write_volume(dir, "t1.nii", 1), second = write_volume(dir, "t2.nii.gz", 2);
  const auto files = open_input_files({first + ";" + second});
  ASSERT_EQ(files->size(), 1);
  EXPECT_EQ(files->form(), SampleForm::kVolume);
  Sample sample;
  read_decoded(*files, 0, sample);
  EXPECT_EQ(sample.volume().channels, 2);
  EXPECT_EQ(sample.volume().values.front(), 1);
  EXPECT_EQ(sample.volume().values.back(), 2);
}

TEST(InputFilesTest, ScalesAsTheSetTheModelWasTrainedOn) {
  const TempDir dir;
  Volume volume{1, {1, 1, 3}, {1, 1, 1}, {10, 20, 30}};
  write_nifti(dir.file("ct.nii"), volume, kIdentityAffine);
  const DataSectionConfig like = {BasicCtConfig{.path = "elsewhere"}};
  Sample sample;
  read_decoded(*open_input_files({dir.file("ct.nii")}, like), 0, sample);
  EXPECT_EQ(sample.volume().values, (std::vector<float>{0, 0.5, 1}));
}

// One patient, 3 x 4 x 5 voxels of 2 x 3 x 4 mm to the right, the front and the head: every voxel
// has another number, so that no flip or swap is hidden.
class SamePatientTest : public ::testing::Test {
 protected:
  static constexpr std::array<int64_t, 3> kSizes = {3, 4, 5};
  static constexpr std::array<double, 3> kSpacing = {2, 3, 4};
  // Millimetres (RAS) of the voxel furthest to the left, the back and the feet.
  static constexpr std::array<double, 3> kCorner = {-10, 20, -30};

  using Place = std::array<int64_t, 3>;  // to the right, the front, the head
  static uint16_t number_at(const Place& p) {
    return static_cast<uint16_t>(100 * p[0] + 10 * p[1] + p[2]);
  }

  SamePatientTest() {
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t a = 0; a < 4; ++a) {
        for (int64_t s = 0; s < 5; ++s) expected_.push_back(number_at({r, a, s}));
      }
    }
    write_turned_nifti();
    // Axial: slices to the head, columns to the left, rows to the back.
    write_series("axial", 2, {0, 1, 2}, {true, true, false});
    // Sagittal: slices to the right, columns to the back, rows to the feet.
    write_series("sagittal", 0, {1, 2, 0}, {false, true, true});
  }

  // Axes of the file: to the feet, to the right, to the back.
  void write_turned_nifti() {
    Volume volume{1, {5, 3, 4}, {4, 2, 3}, {}};
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        for (int64_t k = 0; k < 4; ++k) volume.values.push_back(number_at({j, 3 - k, 4 - i}));
      }
    }
    const Affine affine = {
        {{0, 2, 0, kCorner[0]}, {0, 0, -3, kCorner[1] + 3 * 3}, {-4, 0, 0, kCorner[2] + 4 * 4}}};
    nifti_ = dir_.file("turned.nii.gz");
    write_nifti(nifti_, volume, affine);
  }

  // across: the patient axis that slices follow; axes: those of columns, of rows and of slices;
  // is_flipped: by patient axis, whether the file runs against it.
  void write_series(const std::string& name, size_t across, std::array<size_t, 3> axes,
                    std::array<bool, 3> is_flipped) {
    const size_t x = axes[0], y = axes[1];
    for (int64_t slice = 0; slice < kSizes[across]; ++slice) {
      testing::SliceToWrite out{.rows = kSizes[y], .columns = kSizes[x]};
      out.pixel_spacing = {kSpacing[y], kSpacing[x]};
      Place first = {};
      for (size_t axis = 0; axis < 3; ++axis) first[axis] = is_flipped[axis] ? kSizes[axis] - 1 : 0;
      first[across] = slice;
      for (size_t axis = 0; axis < 3; ++axis) {
        const double to_lps = axis < 2 ? -1 : 1;
        out.position[axis] =
            to_lps * (kCorner[axis] + kSpacing[axis] * static_cast<double>(first[axis]));
      }
      out.orientation[x] = (x < 2 ? -1 : 1) * (is_flipped[x] ? -1 : 1);
      out.orientation[3 + y] = (y < 2 ? -1 : 1) * (is_flipped[y] ? -1 : 1);
      for (int64_t row = 0; row < kSizes[y]; ++row) {
        for (int64_t column = 0; column < kSizes[x]; ++column) {
          Place place = first;
          place[y] += is_flipped[y] ? -row : row;
          place[x] += is_flipped[x] ? -column : column;
          out.pixels.push_back(number_at(place));
        }
      }
      // Names say nothing about the order.
      dir_.write(fmt::format("{}/{}.dcm", name, (7 * slice + 3) % 11), testing::dicom_bytes(out));
    }
  }

  static Volume read(const std::string& path, const DataSectionConfig& like) {
    Sample sample;
    read_decoded(*open_input_files({path}, like), 0, sample);
    return sample.volume();
  }

  static DataSectionConfig nifti_like(const std::string& orientation) {
    NiftiConfig config;
    config.path = "elsewhere";
    config.orientation = orientation;
    return {config};
  }
  static DataSectionConfig dicom_like(const std::string& orientation) {
    DicomConfig config;
    config.path = "elsewhere";
    config.orientation = orientation;
    return {config};
  }

  const TempDir dir_;
  std::string nifti_;
  std::vector<float> expected_;
};

TEST_F(SamePatientTest, HasTheSameVoxelsInEveryFileWhereTheRunIsCanonical) {
  MixConfig mix;
  mix.sets = {{.name = "a", .source = DatasetConfig{NpzConfig{}}}, {.name = "b"}};
  auto canonical = NiftiConfig();
  canonical.orientation = "canonical";
  mix.sets[1].source = {canonical};
  for (const auto& like :
       {nifti_like("canonical"), dicom_like("canonical"), DataSectionConfig{mix}}) {
    for (const auto& path : {nifti_, dir_.file("axial"), dir_.file("sagittal")}) {
      const Volume volume = read(path, like);
      EXPECT_EQ(volume.size, (VolumeSize{3, 4, 5})) << path;
      EXPECT_EQ(volume.spacing, kSpacing) << path;
      EXPECT_EQ(volume.values, expected_) << path;
    }
  }
}

TEST_F(SamePatientTest, IsRefusedWhereAxesCannotBeMadeAlike) {
  const auto error = [&](const std::string& path, const DataSectionConfig& like) {
    return message_of<ConfigError>([&] { read(path, like); });
  };
  EXPECT_THAT(error(dir_.file("axial"), nifti_like("as_stored")),
              AllOf(HasSubstr("axial: a folder of DICOM slices"), HasSubstr("[x, y, z]"),
                    HasSubstr("dcm2niix"), HasSubstr("orientation: canonical")));
  EXPECT_THAT(error(nifti_, dicom_like("as_stored")),
              AllOf(HasSubstr("a NIfTI, NRRD or MetaImage file"),
                    HasSubstr("[slices, rows, columns]"), HasSubstr("orientation: canonical")));
  // What such runs have always been given stays as it was.
  EXPECT_EQ(read(dir_.file("axial"), dicom_like("as_stored")).size, (VolumeSize{5, 4, 3}));
  EXPECT_EQ(read(nifti_, nifti_like("as_stored")).size, (VolumeSize{5, 3, 4}));
}

TEST_F(SamePatientTest, MasksLieOnTheFilesOwnVoxels) {
  for (const auto& path : {nifti_, dir_.file("axial"), dir_.file("sagittal")}) {
    const auto volume = open_input_volume(path, nifti_like("canonical"));
    // A mask that holds the voxels themselves: written and read again it must be the same patient.
    LabelMap mask{volume.given.size, {expected_.begin(), expected_.end()}};
    const auto out = dir_.file("mask.nii");
    write_nifti(out, in_stored_order(mask, volume), volume.stored.affine);
    EXPECT_EQ(read(out, nifti_like("canonical")).values, expected_) << path;
    LabelMap stored;
    convert_labels(read_nifti(out), {.num_classes = 1000}, stored);
    LabelMap wanted;
    convert_labels(volume.stored, {.num_classes = 1000}, wanted);
    EXPECT_EQ(stored.classes, wanted.classes) << path;
  }
}

TEST_F(SamePatientTest, TrainingAndEvaluationMustAgree) {
  DataConfig config;
  config.train = nifti_like("canonical");
  config.val = dicom_like("as_stored");
  const auto open = [&] {
    open_loader_setup(config, *config.val, {.in_chans = 1, .spatial_dims = 3}, false);
  };
  EXPECT_THAT(message_of<ConfigError>(open),
              AllOf(HasSubstr("data.train"), HasSubstr("data.val"), HasSubstr("canonical")));
  DicomConfig dicom;
  dicom.path = dir_.path();
  dicom.images = {"axial"};
  dicom.orientation = "canonical";
  config.val = {dicom};
  const auto opened =
      open_loader_setup(config, *config.val, {.in_chans = 1, .spatial_dims = 3}, false);
  Sample sample;
  read_decoded(*opened.dataset, 0, sample);
  EXPECT_EQ(sample.volume().values, expected_);
  MixConfig mix;
  mix.sets = {{.name = "scans"}, {.name = "arrays"}, {.name = "slices"}};
  mix.sets[0].source = {NiftiConfig()};
  mix.sets[1].source = {NpyConfig()};
  mix.sets[2].source = {dicom};
  EXPECT_THAT(message_of<ConfigError>([&] { build_mix_dataset(mix); }),
              AllOf(HasSubstr("scans"), HasSubstr("slices"), HasSubstr("canonical")));
}

TEST_F(SamePatientTest, MasksOfASeriesAreTurnedWithIt) {
  const auto series = read_dicom_series(dir_.file("axial"));
  LabelMap mask{series.size, {}};
  Volume volume;
  convert_volume(series, volume);
  mask.classes.assign(volume.values.begin(), volume.values.end());
  write_nifti(dir_.file("masks/axial.nii.gz"), mask, series.affine);
  DicomConfig config;
  config.path = dir_.path();
  config.images = {"axial"};
  config.masks = "masks/axial.nii.gz";
  config.num_classes = 1000;
  for (const char* orientation : {"as_stored", "canonical"}) {
    config.orientation = orientation;
    Sample sample;
    read_decoded(*build_dicom_dataset(config), 0, sample);
    EXPECT_EQ(std::vector<float>(sample.mask.classes.begin(), sample.mask.classes.end()),
              sample.volume().values)
        << orientation;
  }
  dir_.write("masks/axial.npy", "");
  config.masks = "masks/axial.npy";
  Sample sample;
  EXPECT_THAT(message_of([&] { read_decoded(*build_dicom_dataset(config), 0, sample); }),
              HasSubstr("an array names no directions"));
}

TEST_F(SamePatientTest, SlicesThatDoNotSayHowTheyLieAreNotCanonical) {
  dir_.write("alone/0.dcm", testing::dicom_bytes({.pixels = {7}}));
  EXPECT_EQ(read_dicom_series(dir_.file("alone")).affine, affine_of_spacing({1, 1, 1}));
  EXPECT_THAT(message_of([&] { read_dicom_series(dir_.file("alone"), {.canonical = true}); }),
              HasSubstr("its axes are unknown"));
}

// tests/golden/data_axes: series, and the files that dcm2niix makes of them.
TEST(SameAxesTest, ASeriesIsWhatDcm2niixMakesOfIt) {
  constexpr const char* kAxes = "data_axes";
  const TempDir dir;
  DicomConfig dicom;
  dicom.orientation = "canonical";
  for (const std::string kind : {"axial", "coronal", "oblique"}) {
    for (int i = 0; i < 5; ++i) {
      dir.write(fmt::format("{}/{}.dcm", kind, 3 * i % 5),
                testing::golden(fmt::format("file.{}.{}", kind, i), kAxes).bytes);
    }
    const auto nifti = dir.write(kind + ".nii", testing::golden("nifti." + kind, kAxes).bytes);
    const auto& expected = testing::golden("canonical." + kind, kAxes);
    const auto spacing = testing::golden("spacing." + kind, kAxes).values<double>();
    for (const auto& path : {dir.file(kind), nifti}) {
      Sample sample;
      read_decoded(*open_input_files({path}, DataSectionConfig{dicom}), 0, sample);
      const Volume& volume = sample.volume();
      EXPECT_EQ(volume.size, (VolumeSize{expected.shape[0], expected.shape[1], expected.shape[2]}))
          << path;
      EXPECT_EQ(volume.values, expected.values<float>()) << path;
      for (size_t axis = 0; axis < 3; ++axis)
        EXPECT_NEAR(volume.spacing[axis], spacing[axis], 1e-4) << path;
    }
    const auto of_nifti = open_input_volume(nifti, DataSectionConfig{dicom}).given.affine;
    const auto of_series = open_input_volume(dir.file(kind), DataSectionConfig{dicom}).given.affine;
    for (size_t row = 0; row < 3; ++row) {
      for (size_t column = 0; column < 4; ++column)
        EXPECT_NEAR(of_series[row][column], of_nifti[row][column], 1e-4) << kind;
    }
  }
}

TEST(InputFilesTest, RefusesImagesAmongVolumes) {
  EXPECT_THAT(message_of<ConfigError>([] {
                open_input_files({"a.nii", "b.png"});
              }),
              HasSubstr("1 of 2 inputs are volumes"));
}

}  // namespace
}  // namespace fovea::data
