#include "fovea/core/input_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/log.h"
#include "fovea/files/atomic_file.h"
#include "fovea/files/lines.h"
#include "tests/support/temp_dir.h"

namespace fovea {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A reader that waits for a writer fails the test in place of standing still.
class InputFileTest : public ::testing::Test {
 protected:
  void SetUp() override { alarm(60); }
  void TearDown() override { alarm(0); }

  std::string pipe() const {
    const auto path = folder_.file("pipe");
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  std::string circle() const {
    const auto path = folder_.file("circle");
    std::filesystem::create_symlink(path, path);
    return path;
  }
  std::string socket_file() const {
    const auto path = folder_.file("socket");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    close(made);
    return path;
  }
  // A file of so many bytes, none of which takes room on the disk.
  std::string sparse(const std::string& name, uint64_t bytes) const {
    const auto path = folder_.write(name, "");
    std::filesystem::resize_file(path, bytes);
    return path;
  }
  static std::string refusal(const std::string& path) {
    try {
      const InputFile file(path);
    } catch (const DataError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  support::TempDir folder_;
};

TEST_F(InputFileTest, SaysWhatStandsThereInstead) {
  EXPECT_THAT(refusal(pipe()), HasSubstr("pipe: a pipe, not a regular file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("/dev/zero: a device, not a regular file"));
  EXPECT_THAT(refusal(folder_.path()), HasSubstr(": a folder, not a regular file"));
  EXPECT_THAT(refusal(socket_file()), HasSubstr("socket: a socket, not a regular file"));
  EXPECT_THAT(refusal(circle()), HasSubstr("Too many levels of symbolic links"));
  EXPECT_THAT(refusal(folder_.path() + "/none"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(folder_.path() + "/" + std::string(300, 'x')), HasSubstr("too long"));
  EXPECT_THAT(refusal(folder_.write("a", "x") + std::string("\0b", 2)),
              HasSubstr("a\\x00b: cannot"));
  EXPECT_THAT(refusal(folder_.path() + "/\x1b[31m"), HasSubstr("\\x1b[31m: cannot open"));
}

TEST_F(InputFileTest, ReadsAtPlaces) {
  const InputFile file(folder_.write("a", "0123456789"));
  std::array<uint8_t, 4> bytes{};
  file.read(3, bytes);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "3456");
  EXPECT_EQ(file.read_some(8, bytes), 2U);
  EXPECT_THAT([&] { file.read(8, bytes); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("it is truncated")));
  std::filesystem::resize_file(folder_.file("a"), 4);
  EXPECT_THAT([&] { file.read(3, bytes); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("it became shorter")));
}

// Nothing is read, and no memory taken, of what is too large: this would take minutes.
TEST_F(InputFileTest, ASparseFileIsNotRead) {
  const auto path = sparse("large", uint64_t{1} << 40);
  EXPECT_THAT([&] { read_file(path, 1 << 20); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("larger than 1048576 bytes")));
  EXPECT_EQ(read_start(path, 3), std::string(3, '\0'));
  LineReader lines(path, 1 << 20);
  std::string line;
  EXPECT_THAT([&] { lines.next(line); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("line 1 has more than 1048576 bytes")));
}

TEST_F(InputFileTest, WhatHasNoSizeIsReadToItsEnd) {
  EXPECT_THAT(read_file("/proc/self/status", 1 << 20), HasSubstr("VmRSS"));
  EXPECT_THAT([] { read_file("/proc/self/status", 10); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("larger than 10 bytes")));
}

TEST_F(InputFileTest, PredicatesDoNotThrow) {
  EXPECT_TRUE(is_there(circle()));
  EXPECT_FALSE(is_folder(folder_.file("circle")));
  EXPECT_TRUE(is_folder(folder_.path()));
  EXPECT_FALSE(is_there(folder_.path() + "/none"));
  EXPECT_FALSE(is_there(folder_.write("a", "x") + "/b"));
  EXPECT_TRUE(is_there(std::string(5000, 'x')));
}

TEST_F(InputFileTest, WhatIsNoFileIsNotWrittenTo) {
  const auto refused = [](const std::string& what) {
    return ::testing::ThrowsMessage<Error>(AllOf(HasSubstr(what), HasSubstr("not written to")));
  };
  EXPECT_THAT([&] { check_output_file(pipe()); }, refused("a pipe stands there"));
  EXPECT_NO_THROW(check_output_file(folder_.path() + "/none"));
  EXPECT_THAT([&] { LogFile(folder_.file("pipe")); }, refused("a pipe"));
  // A file would take the place of the device.
  const auto device = folder_.file("null");
  std::filesystem::create_symlink("/dev/null", device);
  EXPECT_THAT([&] { write_file_atomic(device, "x"); }, refused("a device"));
  EXPECT_TRUE(std::filesystem::is_symlink(device));
}

TEST_F(InputFileTest, LinesOfAnyFile) {
  const auto path = folder_.write("a", "one\n\n" + std::string(70'000, 'x') + "\nlast");
  LineReader lines(path, 70'000);
  std::vector<std::string> found;
  for (std::string line; lines.next(line);) {
    EXPECT_EQ(lines.is_whole(), line != "last");
    found.push_back(line);
  }
  EXPECT_THAT(found, ::testing::ElementsAre("one", "", std::string(70'000, 'x'), "last"));
  std::string line;
  LineReader empty(folder_.write("empty", ""), 10);
  EXPECT_FALSE(empty.next(line));
}

}  // namespace
}  // namespace fovea
