// The MNI152 brain out of nilearn's wheel, on a small stand-in with the wheel's names.
#include "fovea/data_tools/prepare/mni152.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fovea/core/error.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/data/stored_zip.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr VolumeSize kBrainSize = {6, 14, 5};
constexpr Affine kBrainAffine = {{{1, 0, 0, -98}, {0, 2, 0, -134}, {0, 0, 1, -72}}};

// A map whose voxel [d, h, w] is value(d, h, w), as a member of the wheel.
template <class Value>
std::pair<std::string, std::vector<uint8_t>> brain_member(const testing::TempDir& dir,
                                                          const std::string& map, Value value,
                                                          VolumeSize size = kBrainSize) {
  Volume volume{1, size, {1, 2, 1}, {}};
  for (int64_t d = 0; d < size.depth; ++d) {
    for (int64_t h = 0; h < size.height; ++h) {
      for (int64_t w = 0; w < size.width; ++w) volume.values.push_back(value(d, h, w));
    }
  }
  const auto path = dir.file(map + ".nii.gz");
  write_nifti(path, volume, kBrainAffine);
  std::ifstream file(path, std::ios::binary);
  return {"nilearn/datasets/data/mni_icbm152_" + map + "_tal_nlin_sym_09a_converted.nii.gz",
          {std::istreambuf_iterator<char>(file), {}}};
}

// The head is [1, 5) x [2, 13) x all; grey where h < 6, white where d is 2, both maps up to 255.
struct Wheel {
  testing::TempDir dir;
  std::pair<std::string, std::vector<uint8_t>> t1 =
      brain_member(dir, "t1", [](int64_t d, int64_t h, int64_t) {
        return d >= 1 && d < 5 && h >= 2 && h < 13 ? 50.0f + static_cast<float>(h) : 0.0f;
      });
  std::pair<std::string, std::vector<uint8_t>> grey =
      brain_member(dir, "gm", [](int64_t, int64_t h, int64_t) { return h < 6 ? 255.0f : 20.0f; });
  std::pair<std::string, std::vector<uint8_t>> white = brain_member(
      dir, "wm", [](int64_t d, int64_t h, int64_t) { return d == 2 && h >= 6 ? 255.0f : 0.0f; });

  Mni152Report prepare(int64_t slabs = 5) const {
    const auto path = dir.write("nilearn.whl", testing::stored_zip({t1, grey, white}));
    return prepare_mni152({.wheel = path, .out = dir.file("out"), .num_slabs = slabs});
  }
};

TEST(Mni152Test, CutsTheHeadIntoSlabs) {
  const Wheel wheel;
  const auto report = wheel.prepare();
  EXPECT_EQ(report.train.slabs, 3);
  EXPECT_EQ(report.val.slabs, 2);
  // 11 voxels in 5 slabs: 3 in the first and 2 in each other; 4 x 5 voxels across.
  const auto out = std::filesystem::path(wheel.dir.file("out"));
  Volume image;
  const auto first = read_nifti((out / "train/images/slab_0.nii").string());
  convert_volume(first, image);
  EXPECT_EQ(image.size, (VolumeSize{4, 3, 5}));
  EXPECT_EQ(image.values.front(), 52.0f);
  EXPECT_EQ(first.affine[0][3], -97);
  EXPECT_EQ(first.affine[1][3], -130);
  const auto second = read_nifti((out / "val/labels/slab_1.nii").string());
  LabelMap labels;
  convert_labels(second, {.num_classes = 3}, labels);
  EXPECT_EQ(labels.size, (VolumeSize{4, 2, 5}));
  EXPECT_EQ(labels.classes.front(), 1);                          // d 1, h 5
  EXPECT_EQ(labels.classes[5], 0);                               // d 1, h 6
  EXPECT_EQ(labels.classes[static_cast<size_t>(2 * 5 + 5)], 2);  // d 2, h 6
  const auto sum = [](const Mni152Part& part) {
    return part.voxels[0] + part.voxels[1] + part.voxels[2];
  };
  EXPECT_EQ(sum(report.train) + sum(report.val), 4 * 11 * 5);
  EXPECT_EQ(report.train.voxels[1] + report.val.voxels[1], 4 * 4 * 5);
  EXPECT_EQ(report.train.voxels[2] + report.val.voxels[2], 7 * 5);
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();  // no temporary file is left
  }
}

std::string mni_error(const Wheel& wheel, int64_t slabs = 5) {
  try {
    wheel.prepare(slabs);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Mni152Test, RefusesOtherArchives) {
  Wheel wheel;
  wheel.white.first = "nilearn/other.nii.gz";
  EXPECT_THAT(mni_error(wheel), HasSubstr("pip download"));
  Wheel uneven;
  uneven.grey =
      brain_member(uneven.dir, "gm", [](int64_t, int64_t, int64_t) { return 1.0f; }, {3, 4, 5});
  EXPECT_THAT(mni_error(uneven), HasSubstr("differ in size"));
  EXPECT_THAT(mni_error(Wheel(), 50), HasSubstr("slabs"));
  EXPECT_THAT(mni_error(Wheel(), 1), HasSubstr("slabs"));
}

TEST(Mni152Test, ADamagedMapNamesTheWheel) {
  Wheel wheel;
  wheel.grey.second.resize(wheel.grey.second.size() / 2);
  EXPECT_THAT(mni_error(wheel), AllOf(HasSubstr("nilearn.whl: "), HasSubstr("icbm152_gm_")));
}

}  // namespace
}  // namespace fovea::data
