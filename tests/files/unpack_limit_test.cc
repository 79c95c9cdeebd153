#include "fovea/files/unpack_limit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/input_files.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "tests/data/bad_input_support.h"
#include "tests/data/stored_zip.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

TEST(UnpackLimitTest, LimitsWhatIsLargeAndPackedTooWell) {
  const auto is_refused = [](uint64_t packed, uint64_t unpacked) {
    try {
      check_unpacked_bytes(packed, unpacked, kDefaultUnpackedBytes, "a.nii.gz");
      return false;
    } catch (const DataError&) {
      return true;
    }
  };
  constexpr uint64_t kMiB = 1 << 20, kGiB = 1 << 30;
  EXPECT_TRUE(is_refused(7 * kMiB, 4 * kGiB));   // zeros
  EXPECT_FALSE(is_refused(2 * kGiB, 5 * kGiB));  // a scan of the brain at 1200 times, float32
  EXPECT_FALSE(is_refused(kMiB, kGiB));          // a mask of 1024 x 1024 x 1024
  EXPECT_FALSE(is_refused(64 * kMiB, 4 * kGiB));
  EXPECT_TRUE(is_refused(0, uint64_t{1} << 62));
}

// A blank volume of 64 x 64 x 64: 256 KiB out of some hundred bytes.
std::vector<uint8_t> blank_nifti() {
  const TempDir dir;
  const Volume volume{1, {64, 64, 64}, {1, 1, 1}, std::vector<float>(64 * 64 * 64)};
  write_nifti(dir.file("a.nii.gz"), volume, affine_of_spacing({1, 1, 1}));
  return testing::file_bytes(dir.file("a.nii.gz"));
}

TEST(UnpackLimitTest, IsAKeyOfEachFormat) {
  const TempDir dir;
  const auto error = [](const auto& config) {
    return message_of([&] {
      Sample sample;
      build_dataset({config})->read(0, sample);
    });
  };
  constexpr int64_t kLimit = 100'000;
  const auto says = AllOf(HasSubstr("more than 64 times as many"), HasSubstr("at most 100000"),
                          HasSubstr("max_unpacked_bytes"));
  NiftiConfig nifti;
  nifti.path = dir.path();
  nifti.max_unpacked_bytes = kLimit;
  nifti.images = {"a.nii.gz"};
  const auto scan = dir.write("a.nii.gz", blank_nifti());
  EXPECT_THAT(error(nifti), says);
  EXPECT_THAT(message_of([&] {
                Sample sample;
                open_input_files({scan}, DataSectionConfig{nifti})->read(0, sample);
              }),
              says);
  nifti.max_unpacked_bytes = 4 * 64 * 64 * 64;
  Sample sample;
  build_dataset({nifti})->read(0, sample);
  EXPECT_EQ(sample.volume().size.voxels(), 64 * 64 * 64);
  dir.write("ct/imagesTr/image_1.nii.gz", blank_nifti());
  EXPECT_THAT(
      error(BasicCtConfig{.path = dir.file("ct"), .masks = false, .max_unpacked_bytes = kLimit}),
      says);
  const auto images = testing::idx_bytes({40, 64, 64}, std::vector<uint8_t>(40 * 64 * 64));
  IdxConfig idx{.images = dir.write("images.gz", testing::gzip(images))};
  idx.max_unpacked_bytes = kLimit;
  EXPECT_THAT(error(idx), says);
  idx.images = dir.write("images", images);  // plain: nothing is unpacked
  build_dataset({idx})->read(39, sample);
}

}  // namespace
}  // namespace fovea::data
