#include "fovea/data/volume/known_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "fovea/core/files.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/data/failing_disk.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

using testing::bytes_read;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

constexpr int64_t kCount = kLeastKnownSizes + 6;

std::string name_of(int64_t index) { return fmt::format("x/scan {:03}.nii.gz", index); }

void write_scan(const TempDir& dir, int64_t index, VolumeSize size) {
  const Volume volume{.channels = 1,
                      .size = size,
                      .values = std::vector<float>(static_cast<size_t>(size.voxels()), 1)};
  write_nifti(dir.file(name_of(index)), volume, affine_of_spacing({1, 1, 1}));
  // Long enough ago.
  fs::last_write_time(dir.file(name_of(index)),
                      fs::file_time_type::clock::now() - std::chrono::hours(1 + index));
}

std::vector<VolumeSize> sizes_in(const TempDir& dir) {
  NiftiConfig config;
  config.path = dir.path();
  config.images = {"x/*.nii.gz"};
  return build_dataset({config})->sizes(0, kCount);
}

TEST(KnownSizesTest, ASecondStartReadsNoFile) {
  const TempDir dir;
  for (int64_t i = 0; i < kCount; ++i) write_scan(dir, i, {2, 3, 1 + i});
  const auto first = sizes_in(dir);
  EXPECT_EQ(first[5], (VolumeSize{2, 3, 6}));
  const std::string list = dir.path() + "/.fovea_sizes";
  ASSERT_TRUE(is_there(list));
  const int64_t before = bytes_read();
  EXPECT_EQ(sizes_in(dir), first);
  EXPECT_EQ(bytes_read() - before, static_cast<int64_t>(fs::file_size(list)));
  // A file of another size or time is read again, and the list is made whole.
  write_scan(dir, 9, {7, 7, 7});
  EXPECT_EQ(sizes_in(dir)[9], (VolumeSize{7, 7, 7}));
  EXPECT_EQ(load_known<VolumeSize>(dir.path()).size(), static_cast<size_t>(kCount));
}

TEST(KnownSizesTest, AFileThatMayStillChangeIsNotKept) {
  const TempDir dir;
  for (int64_t i = 0; i < kCount; ++i) write_scan(dir, i, {2, 2, 2});
  fs::last_write_time(dir.file(name_of(3)), fs::file_time_type::clock::now());
  sizes_in(dir);
  const auto known = load_known<VolumeSize>(dir.path());
  EXPECT_EQ(known.size(), static_cast<size_t>(kCount - 1));
  EXPECT_FALSE(known.contains({"nifti", name_of(3)}));
}

TEST(KnownSizesTest, WithoutAListThatCanBeReadOrWritten) {
  const TempDir dir;
  for (int64_t i = 0; i < kCount; ++i) write_scan(dir, i, {2, 2, 1 + i});
  fs::create_directory(dir.path() + "/.fovea_sizes");  // neither
  EXPECT_EQ(sizes_in(dir)[4], (VolumeSize{2, 2, 5}));
  fs::remove(dir.path() + "/.fovea_sizes");
  dir.write(".fovea_sizes", std::string("fovea sizes 1\n9 9 9 cut off"));
  EXPECT_EQ(sizes_in(dir)[4], (VolumeSize{2, 2, 5}));
  EXPECT_THAT(read_file(dir.path() + "/.fovea_sizes", 1 << 20), HasSubstr("2 2 5 "));
}

TEST(KnownSizesTest, FoldersAreWhatTheirFilesAre) {
  const TempDir dir;
  std::vector<std::string> paths;
  for (int64_t i = 0; i < kCount; ++i) {
    const std::string file = dir.write(fmt::format("s{}/a b.dcm", i), std::string("slice"));
    fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1));
    paths.push_back(fs::path(file).parent_path().string());
    fs::last_write_time(paths.back(), fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  std::atomic<int> reads = 0;
  const auto ask = [&] {
    reads = 0;
    return sizes_of_files(dir.path(), "dicom", paths, [&](size_t i) {
      ++reads;
      return VolumeSize{1, 1, static_cast<int64_t>(i) + 1};
    });
  };
  const auto first = ask();
  EXPECT_EQ(reads, kCount);
  EXPECT_EQ(ask(), first);
  EXPECT_EQ(reads, 0);
  // As many bytes at another time.
  fs::last_write_time(paths[2] + "/a b.dcm",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(ask(), first);
  EXPECT_EQ(reads, 1);
}

TEST(KnownSizesTest, ParsesWhatItWrites) {
  const KnownFiles<VolumeSize> known = {
      {{"nifti", "a b/c.nii"}, {{12, 34}, {1, 2, 3}}},
      {{"dicom-1.2", "x"}, {{~uint64_t{0}, ~uint64_t{0}}, {4, 5, 6}}},
  };
  EXPECT_EQ(parse_known<VolumeSize>(format_known(known), "list"), known);
  EXPECT_TRUE(parse_known<VolumeSize>("", "list").empty());
  const std::string head = "fovea sizes 1\n";
  const auto fault = [&](const std::string& line) {
    return message_of([&] { parse_known<VolumeSize>(head + line, "list"); });
  };
  EXPECT_THAT(message_of([] { parse_known<VolumeSize>("sizes\n", "list"); }), HasSubstr("list:1:"));
  for (const char* line : {"\n", "1 2\n", "0 2 3 4 5 nifti a\n", "1 2 3 4 5 nifti\n",
                           "1 2 3 4 5 nifti \n", "1 2 3 -4 5 nifti a\n", "1 2 3 4 5  a\n",
                           "4294967296 4294967296 4294967296 4 5 nifti a\n", "1 2 3 4 5 nifti a"}) {
    EXPECT_THAT(fault(line), HasSubstr("list:2:")) << line;
  }
}

}  // namespace
}  // namespace fovea::data
