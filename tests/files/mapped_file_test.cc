#include "fovea/files/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>

#include "fovea/core/error.h"
#include "tests/data/failing_disk.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using data::testing::DiskFault;
using data::testing::FailingDisk;
using support::TempDir;
using ::testing::AllOf;
using ::testing::HasSubstr;

const auto kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

std::vector<uint8_t> pages_of_ones(size_t pages) { return std::vector<uint8_t>(pages * kPage, 1); }

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

int64_t sum_of(std::span<const uint8_t> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

TEST(MappedFileTest, BytesThatGoAwayWhileTheyAreUsedAreNoticed) {
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(8));
  const MappedFile file(path);
  const MappedReads reads;
  const auto bytes = file.ready(kPage, 6 * kPage);
  EXPECT_EQ(sum_of(bytes), static_cast<int64_t>(6 * kPage));
  EXPECT_NO_THROW(reads.check([] { return "x"; }));
  std::filesystem::resize_file(path, 3 * kPage);
  EXPECT_EQ(sum_of(bytes), static_cast<int64_t>(2 * kPage));  // zeros for four pages
  EXPECT_THAT(message_of([&] { reads.check([] { return "sample 7"; }); }),
              HasSubstr("sample 7: a page of the file went away"));
  EXPECT_NO_THROW(MappedReads().check([] { return "x"; }));  // of this thread, since then
  // What is still there can be read; what was lost stays lost, since zeros took its place.
  EXPECT_EQ(sum_of(file.ready(0, 3 * kPage)), static_cast<int64_t>(3 * kPage));
  std::filesystem::resize_file(path, 8 * kPage);
  EXPECT_THAT(message_of([&] { file.ready(6 * kPage, kPage); }), HasSubstr("lost earlier"));
  EXPECT_NO_THROW(file.ready(7 * kPage, kPage));
}

TEST(MappedFileTest, ThreadsNoticeTheirOwnLosses) {
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(64));
  const MappedFile file(path);
  const auto bytes = file.ready(0, 64 * kPage);
  std::filesystem::resize_file(path, 32 * kPage);
  const MappedReads mine;
  std::vector<std::thread> threads;
  std::atomic<int> noticed = 0;
  std::atomic<int64_t> total = 0;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const MappedReads reads;
      total += sum_of(bytes.subspan(16 * t * kPage, 16 * kPage));
      try {
        reads.check([] { return "x"; });
      } catch (const DataError&) {
        ++noticed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(noticed, 2);
  EXPECT_EQ(total, static_cast<int64_t>(32 * kPage));
  EXPECT_NO_THROW(mine.check([] { return "x"; }));
}

TEST(MappedFileTest, MoreLossesThanCanBeToldApart) {
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(200));
  const MappedFile file(path);
  const auto bytes = file.ready(0, 200 * kPage);
  std::filesystem::resize_file(path, kPage);
  EXPECT_EQ(sum_of(bytes), static_cast<int64_t>(kPage));
  EXPECT_THROW(file.ready(0, 10), DataError);
  // The next mapping starts without a stain.
  const MappedFile other(dir.write("b", pages_of_ones(200)));
  EXPECT_EQ(sum_of(other.ready(0, 200 * kPage)), static_cast<int64_t>(200 * kPage));
}

// No page is lost then: the rest of the last page becomes zeros.
TEST(MappedFileTest, AFileCutWithinAPageIsNoticed) {
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(2));
  const MappedFile file(path);
  std::filesystem::resize_file(path, kPage + 100);
  EXPECT_EQ(sum_of(file.ready(0, kPage + 100)), static_cast<int64_t>(kPage + 100));
  EXPECT_THAT(message_of([&] { file.ready(kPage, 101); }),
              AllOf(HasSubstr(fmt::format("{} bytes now", kPage + 100)),
                    HasSubstr("must not change during a run")));
}

TEST(MappedFileTest, AFileWithoutItsNameIsStillThere) {
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(2));
  const MappedFile file(path);
  std::filesystem::remove(path);
  EXPECT_EQ(sum_of(file.ready(0, 2 * kPage)), static_cast<int64_t>(2 * kPage));
  dir.write("a", "another file");
  EXPECT_EQ(sum_of(file.ready(0, 2 * kPage)), static_cast<int64_t>(2 * kPage));
}

TEST(MappedFileTest, ADiskThatFails) {
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(4));
  const MappedFile file(path);
  const FailingDisk disk(path, DiskFault::kEio, static_cast<int64_t>(2 * kPage));
  EXPECT_NO_THROW(file.ready(0, 2 * kPage));
  EXPECT_THAT(message_of([&] { file.ready(kPage, 2 * kPage); }), HasSubstr("Input/output error"));
  EXPECT_GT(FailingDisk::calls(), 0);
}

// A fault that is not ours ends the process, as it would without us.
TEST(MappedFileDeathTest, OtherMappingsAreLeftAlone) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempDir dir;
  const auto path = dir.write("a", pages_of_ones(2));
  const MappedFile file(dir.write("b", pages_of_ones(2)));  // the handler is there
  EXPECT_DEATH(
      {
        const int descriptor = open(path.c_str(), O_RDONLY);
        const auto* bytes = static_cast<const volatile uint8_t*>(
            mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, descriptor, 0));
        std::filesystem::resize_file(path, 1);
        std::exit(bytes[kPage]);
      },
      "");
}

TEST(MappedFileTest, IsOpenedAgainWhileItsNameMeansIt) {
  const TempDir dir;
  const auto path = dir.write("a", "the first");
  const MappedFile file(path);
  const auto again = file.opened_again();
  ASSERT_TRUE(again);
  std::array<uint8_t, 5> bytes{};
  again->read(4, bytes);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "first");
  std::filesystem::rename(dir.write("b", "the other"), path);
  EXPECT_FALSE(file.opened_again());
  std::filesystem::remove(path);
  EXPECT_FALSE(file.opened_again());
}

}  // namespace
}  // namespace fovea
