#include "fovea/core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/missing_file.h"
#include "fovea/core/nearest.h"
#include "fovea/core/printable.h"

namespace fovea {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void fail_open(const std::string& path, int reason) {
  struct stat status {};
  // ENXIO: a socket, which cannot be opened at all.
  if (reason == ENXIO && stat(path.c_str(), &status) == 0) {
    fail<DataError>("{}: {}, not a regular file", printable(path), kind_of(status.st_mode));
  }
  const bool is_absent = reason == ENOENT || reason == ENOTDIR;
  const auto hint = is_absent ? or_nearest_path(path) : std::string();
  const auto message =
      fmt::format("{}: cannot open the file ({}){}", printable(path), std::strerror(reason),
                  hint.empty() ? "; check the path and its permissions" : hint);
  if (is_absent) throw MissingFileError(message);
  throw DataError(message);
}

}  // namespace

NamelessFile::NamelessFile(const std::string& path) {
  // The system would take what stands before it for the name.
  if (path.find('\0') != path.npos) fail_open(path, EINVAL);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (descriptor_ < 0) fail_open(path, errno);
  if (fstat(descriptor_, &status) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    fail_open(path, reason);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    const bool is_stream = !S_ISDIR(status.st_mode);
    fail<DataError>("{}: {}, not a regular file{}", printable(path), kind_of(status.st_mode),
                    is_stream ? "; write what comes from it to a file first" : "");
  }
  size_ = static_cast<uint64_t>(status.st_size);
}

NamelessFile::~NamelessFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

NamelessFile::NamelessFile(NamelessFile&& other) noexcept
    : descriptor_(other.release()), size_(other.size_) {}

int NamelessFile::release() { return std::exchange(descriptor_, -1); }

size_t NamelessFile::read_some(uint64_t offset, std::span<uint8_t> out,
                               const std::string& path) const {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, out.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail<DataError>("{}: cannot be read ({})", printable(path), std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

void NamelessFile::read(uint64_t offset, std::span<uint8_t> out, const std::string& path) const {
  const size_t got = read_some(offset, out, path);
  if (got == out.size()) return;
  fail<DataError>(
      "{}: ends at byte {}, where {} bytes from byte {} on are wanted; {}", printable(path),
      offset + got, out.size(), offset,
      offset + out.size() <= size_ ? "it became shorter while it was read" : "it is truncated");
}

std::string InputFile::name() const { return printable(path_); }

void check_input_folder(const std::string& path, std::string_view expected) {
  if (is_folder(path)) return;
  fail<MissingFileError>("{}: no such folder{}; expected {}", printable(path),
                         or_nearest_path(path), expected);
}

void check_output_file(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  fail<Error>("{}: {} stands there, which is not written to; choose another name", printable(path),
              kind_of(status.st_mode));
}

}  // namespace fovea
