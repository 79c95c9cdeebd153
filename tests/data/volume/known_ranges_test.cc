#include "fovea/data/volume/known_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "fovea/core/files.h"
#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/data/failing_disk.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using testing::bytes_read;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr VolumeSize kScanSize = {32, 16, 16};
constexpr int64_t kScanBytes = 32 * 16 * 16 * 4;

void age_file(const std::string& path, int hours) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

class KnownRangesTest : public ::testing::Test {
 protected:
  // 0 to high along the volume.
  void write_scan(int number, float high, int hours_ago) {
    Volume volume{.channels = 1, .size = kScanSize, .values = {}};
    for (int64_t i = 0; i < kScanSize.voxels(); ++i)
      volume.values.push_back(high * static_cast<float>(i) /
                              static_cast<float>(kScanSize.voxels() - 1));
    const auto path = dir_.file(fmt::format("imagesTr/image_{}.nii", number));
    write_nifti(path, volume, affine_of_spacing({1, 1, 1}));
    age_file(path, hours_ago);
  }
  std::shared_ptr<const Dataset> open() const {
    return build_dataset({BasicCtConfig{.path = dir_.path(), .masks = false}});
  }
  // The last voxel, the largest of its volume: 1 where it was scaled by the volume's own range.
  static float last_voxel(const Dataset& dataset, int64_t index) {
    Sample sample;
    EXPECT_TRUE(dataset.read_region(
        index, {.start = {31, 15, 15}, .size = {1, 1, 1}, .whole = kScanSize}, sample));
    return sample.volume().values.front();
  }
  // Of a data set that is opened for it alone.
  int64_t cost(int64_t index) const {
    const auto dataset = open();
    const int64_t before = bytes_read();
    EXPECT_EQ(last_voxel(*dataset, index), 1.0F);
    return bytes_read() - before;
  }
  std::string list() const { return dir_.path() + "/.fovea_ranges"; }

  TempDir dir_;
};

TEST_F(KnownRangesTest, ALaterRunReadsNoVolumeForThem) {
  for (int i = 0; i < 3; ++i) write_scan(i, 100.0F + static_cast<float>(i), 1);
  {
    const auto dataset = open();
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(last_voxel(*dataset, i), 1.0F);
    EXPECT_TRUE(is_there(list()));  // before it ends: it could be killed
  }
  EXPECT_EQ(load_known<ValueRange>(dir_.path()).size(), 3U);
  for (int64_t i = 0; i < 3; ++i) EXPECT_LT(cost(i), 2000) << i;
}

TEST_F(KnownRangesTest, AFileThatChangedHasAnotherRange) {
  write_scan(0, 100, 2);
  EXPECT_GT(cost(0), kScanBytes);
  write_scan(0, 7, 1);  // as many bytes
  EXPECT_GT(cost(0), kScanBytes);
  EXPECT_LT(cost(0), 2000);
  write_scan(0, 8, 0);  // just now: it may change again within the clock's tick
  EXPECT_GT(cost(0), kScanBytes);
  EXPECT_GT(cost(0), kScanBytes);
}

TEST_F(KnownRangesTest, ADamagedListIsMadeAnew) {
  write_scan(0, 100, 1);
  cost(0);
  const std::string good = read_file(list(), 1 << 20);
  ASSERT_THAT(good, HasSubstr("\n0 100 "));
  auto flipped = good;
  flipped[good.find("100")] = '9';  // a number as good as any
  for (const auto& bad : {flipped, good.substr(0, good.size() / 2), std::string(), std::string("x"),
                          good + "more", std::string(1000, '\0')}) {
    dir_.write(".fovea_ranges", bad);
    EXPECT_GT(cost(0), kScanBytes);
    EXPECT_EQ(read_file(list(), 1 << 20), good);
  }
  fs::remove(list());
  fs::create_directory(list());
  EXPECT_GT(cost(0), kScanBytes);
}

TEST_F(KnownRangesTest, ProcessesShareThem) {
  for (int i = 0; i < 4; ++i) write_scan(i, 3, 1);
  {
    const auto one = open(), other = open();
    last_voxel(*one, 0);
    int64_t before = bytes_read();
    last_voxel(*other, 0);
    EXPECT_LT(bytes_read() - before, 2000);
    last_voxel(*other, 1);
    last_voxel(*one, 2);
    last_voxel(*other, 3);
  }
  EXPECT_EQ(load_known<ValueRange>(dir_.path()).size(), 4U);
}

// Samples of one file have ranges of their own, and the same bytes read in another way others
// again.
TEST_F(KnownRangesTest, OfRawFiles) {
  std::string bytes(2 * 8, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i);
  age_file(dir_.write("a.raw", bytes), 1);
  RawConfig config;
  config.path = dir_.path();
  config.min_max = true;
  config.dtype = "uint8";
  config.axes = "NDHW";
  config.shape = {2, 2, 2, 2};
  const auto corner = [&](int64_t index) {
    Sample sample;
    const VolumeRegion last{.start = {1, 1, 1}, .size = {1, 1, 1}, .whole = {2, 2, 2}};
    EXPECT_TRUE(build_dataset({config})->read_region(index, last, sample));
    return sample.volume().values.front();
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(corner(0), 1.0F);
    EXPECT_EQ(corner(1), 1.0F);
  }
  EXPECT_EQ(load_known<ValueRange>(dir_.path()).size(), 2U);
  config.dtype = "uint16";
  config.shape = {1, 2, 2, 2};
  EXPECT_EQ(corner(0), 1.0F);
  EXPECT_EQ(load_known<ValueRange>(dir_.path()).size(), 3U);
}

TEST(KnownRangesTextTest, ParsesWhatItWrites) {
  const KnownFiles<ValueRange> known = {
      {{"nifti", "a b/c.nii"}, {{12, 34}, {-0.1F, 3.4e38F}}},
      {{"raw-1[3]", "x"}, {{1, 2}, {1e-45F, 1e-45F}}},
  };
  EXPECT_EQ(parse_known<ValueRange>(format_known(known), "list"), known);
  for (const char* line : {"1 2 3 4 nifti\n", "2 1 3 4 nifti a\n", "nan 1 3 4 nifti a\n",
                           "0 inf 3 4 nifti a\n", "0 1e99 3 4 nifti a\n", "0x1 2 3 4 nifti a\n"}) {
    EXPECT_THAT(testing::message_of([&] {
                  parse_known<ValueRange>(std::string("fovea ranges 1\n") + line, "list");
                }),
                HasSubstr("list:2: expected LOW HIGH BYTES STAMP HOW PATH"))
        << line;
  }
}

}  // namespace
}  // namespace fovea::data
