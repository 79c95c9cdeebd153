#include "fovea/checkpoint/durable.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/core/files.h"

namespace fovea::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWriteSize = size_t{8} << 20;  // bytes hashed and written in one go

[[noreturn]] void fail_io(const fs::path& path, const char* what, int error) {
  fail<CheckpointError>(
      "{}: {}: {}; the checkpoints before it are untouched. Free space or mend the file system, "
      "then start again",
      path.string(), what, std::strerror(error));
}

}  // namespace

DurableFile::DurableFile(const fs::path& path)
    : path_(path), fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_with_errno("cannot be created");
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) close(fd_);
}

void DurableFile::fail_with_errno(const char* what) const { fail_io(path_, what, errno); }

void DurableFile::write(const void* data, size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(fd_, from, std::min(bytes, kWriteSize));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with_errno("cannot be written");
    hash_.update(from, static_cast<size_t>(written));
    from += written;
    bytes -= static_cast<size_t>(written);
    bytes_ += static_cast<uint64_t>(written);
  }
}

std::string DurableFile::finish() {
  if (fsync(fd_) != 0) fail_with_errno("cannot be brought to the disk");
  const int fd = fd_;
  fd_ = -1;
  if (close(fd) != 0) fail_with_errno("cannot be closed");
  return hash_.finish();
}

void sync_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_io(folder, "cannot be opened", errno);
  const int result = fsync(fd), error = errno;
  close(fd);
  // Some network file systems have no fsync for folders; they bring names to the disk on their own.
  if (result != 0 && error != EINVAL && error != EROFS) {
    fail_io(folder, "cannot be brought to the disk", error);
  }
}

void move_folder(const fs::path& from, const fs::path& to) {
  if (!is_there(to)) {
    if (rename(from.c_str(), to.c_str()) != 0) fail_io(to, "cannot be renamed to", errno);
    sync_folder(to.parent_path());
    return;
  }
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    // A file system without exchange: a crash between the two renames leaves the older checkpoints.
    const fs::path aside = from.string() + ".old";
    if (rename(to.c_str(), aside.c_str()) != 0 || rename(from.c_str(), to.c_str()) != 0) {
      fail_io(to, "cannot be replaced", errno);
    }
    rename(aside.c_str(), from.c_str());
  }
  sync_folder(to.parent_path());
  std::error_code ignored;  // what is left behind starts with ".tmp-" and goes at the next start
  fs::remove_all(from, ignored);
}

}  // namespace fovea::checkpoint
