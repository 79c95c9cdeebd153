#include "fovea/core/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "fovea/core/error.h"
#include "fovea/files/atomic_file.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FilesTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return temp_.file(name); }
  size_t num_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  support::TempDir temp_;
  fs::path folder_ = temp_.path();
};

TEST_F(FilesTest, ReadsUpToTheCap) {
  std::ofstream(path("a"), std::ios::binary) << std::string(100'000, 'x');
  EXPECT_EQ(read_file(path("a"), 100'000), std::string(100'000, 'x'));
  EXPECT_THAT([&] { read_file(path("a"), 99'999); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("larger than 99999 bytes")));
  EXPECT_THAT([&] { read_file(path("none"), 10); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("No such file")));
  EXPECT_THAT([&] { read_file(folder_.string(), 10); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("a folder, not a regular file")));
  std::ofstream(path("empty")) << "";
  EXPECT_EQ(read_file(path("empty"), 0), "");
}

TEST_F(FilesTest, AtomicFileReplacesTheOldOneWhole) {
  write_file_atomic(path("a"), "old");
  {
    AtomicFile file(path("a"));
    file.write("half of the new");
    EXPECT_EQ(read_file(path("a"), 100), "old");
  }  // not committed
  EXPECT_EQ(read_file(path("a"), 100), "old");
  write_file_atomic(path("a"), "new");
  EXPECT_EQ(read_file(path("a"), 100), "new");
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(FilesTest, AFullDiskLeavesTheOldFile) {
  write_file_atomic(path("a"), "old");
  // A limit on the size of files stands for a full disk: the write fails half-way.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message = "no error";
  try {
    write_file_atomic(path("a"), std::string(100'000, 'x'));
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(message, HasSubstr(path("a")));
  EXPECT_THAT(message, HasSubstr("File too large"));
  EXPECT_EQ(read_file(path("a"), 100), "old");
  EXPECT_EQ(num_files(), 1u);
}

TEST_F(FilesTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT([&] { write_file_atomic((folder_ / "none" / "a").string(), "x"); },
              ::testing::ThrowsMessage<Error>(HasSubstr("No such file")));
}

}  // namespace
}  // namespace fovea
