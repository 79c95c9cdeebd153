#include "fovea/files/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fovea/core/alternate_stack.h"
#include "fovea/core/error.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14
#endif

namespace fovea {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  name_ = file.name();
  size_ = file.size();
  if (size_ == 0) fail<DataError>("{}: the file is empty", name_);
  struct stat status {};
  FOVEA_CHECK(fstat(file.descriptor(), &status) == 0, "{}: {}", name_, std::strerror(errno));
  device_ = status.st_dev;
  inode_ = status.st_ino;
  opened_ = {size_, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    fail<DataError>("{}: cannot be mapped into memory ({})", name_, std::strerror(errno));
  }
  first_ = static_cast<const uint8_t*>(mapped);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  watched_ = watch_mapping(first_, (size_ + page - 1) / page * page);
}

MappedFile::~MappedFile() {
  unwatch_mapping(watched_);
  munmap(const_cast<uint8_t*>(first_), size_);
}

std::optional<InputFile> MappedFile::opened_again() const {
  if (!state_now()) return std::nullopt;
  InputFile file(path_);
  struct stat status {};
  const bool is_same =
      fstat(file.descriptor(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  return is_same ? std::optional(std::move(file)) : std::nullopt;
}

std::optional<MappedFile::State> MappedFile::state_now() const {
  struct stat status {};
  if (stat(path_.c_str(), &status) != 0) return std::nullopt;
  if (status.st_dev != device_ || status.st_ino != inode_) return std::nullopt;
  return State{static_cast<uint64_t>(status.st_size), status.st_mtim.tv_sec,
               status.st_mtim.tv_nsec};
}

// A file cut within a page keeps the page, with zeros behind the cut: no signal tells of those.
void MappedFile::check_length(uint64_t wanted) const {
  const auto now = state_now();
  if (!now || now->bytes >= wanted) return;
  fail<DataError>("{}: {} bytes now, {} when it was opened; files must not change during a run",
                  name_, now->bytes, size_);
}

void MappedFile::check_unchanged() const {
  const auto now = state_now();
  const bool is_lost = has_lost_pages(*watched_, 0, size_);
  if (now && now->bytes != size_) {
    fail<DataError>(
        "{}: {} bytes now, {} when it was opened; files must not change while they are read", name_,
        now->bytes, size_);
  }
  const bool is_written =
      now && (now->seconds != opened_.seconds || now->nanoseconds != opened_.nanoseconds);
  if (!is_lost && !is_written) return;
  fail<DataError>("{}: {} while it was read; nothing of it was used", name_,
                  is_lost ? "pages of it went away" : "another program wrote to it");
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
