#include "fovea/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fovea/core/alternate_stack.h"
#include "fovea/core/error.h"
#include "fovea/core/printable.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14
#endif

namespace fovea {

MappedFile::MappedFile(const std::string& path) : path_(path), name_(printable(path)) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
    const int reason = file < 0 ? errno : 0;
    if (file >= 0) close(file);
    fail<DataError>("{}: {}", name_,
                    reason != 0 ? fmt::format("cannot open the file ({}); check the path and its "
                                              "permissions",
                                              std::strerror(reason))
                                : "empty, or not a regular file");
  }
  size_ = static_cast<uint64_t>(status.st_size);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
  const int reason = errno;
  close(file);
  if (mapped == MAP_FAILED) {
    fail<DataError>("{}: cannot be mapped into memory ({})", name_, std::strerror(reason));
  }
  first_ = static_cast<const uint8_t*>(mapped);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  watched_ = watch_mapping(first_, (size_ + page - 1) / page * page);
}

MappedFile::~MappedFile() {
  unwatch_mapping(watched_);
  munmap(const_cast<uint8_t*>(first_), size_);
}

// A file cut within a page keeps the page, with zeros behind the cut: no signal tells of those.
void MappedFile::check_length(uint64_t wanted) const {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return;  // without a name, but here
  const bool is_same = status.st_dev == device_ && status.st_ino == inode_;
  if (!is_same || static_cast<uint64_t>(status.st_size) >= wanted) return;
  fail<DataError>("{}: {} bytes now, {} when it was opened; files must not change during a run",
                  name_, status.st_size, size_);
}

std::span<const uint8_t> MappedFile::ready(uint64_t offset, uint64_t count) const {
  ensure_alternate_stack();  // for the handler, in the thread that is about to use the bytes
  if (offset > size_ || count > size_ - offset) {
    fail<DataError>("{}: {} bytes are wanted from byte {} on, but there are {}; it is truncated",
                    name_, count, offset, size_);
  }
  check_length(offset + count);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t first = offset / page * page;
  auto* address = const_cast<uint8_t*>(first_ + first);
  int result = 0;
  do {
    result = madvise(address, offset + count - first, MADV_POPULATE_READ);
  } while (result != 0 && (errno == EINTR || errno == EAGAIN));
  // EINVAL: a kernel before 5.14, which cannot be asked.
  const bool is_refused = result != 0 && errno != EINVAL;
  if (count > 0 && (is_refused || has_lost_pages(*watched_, offset, count))) {
    fail<DataError>(
        "{}: {} bytes from byte {} on cannot be read ({}); the disk fails, or the file "
        "became shorter",
        name_, count, offset, is_refused ? std::strerror(errno) : "lost earlier");
  }
  return {first_ + offset, count};
}

void MappedReads::fail_with(const std::string& name) {
  fail<DataError>(
      "{}: a page of the file went away while it was used; the disk fails, or the file became "
      "shorter: mend it, and do not write to files that are read",
      name);
}

}  // namespace fovea
