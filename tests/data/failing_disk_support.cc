#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "tests/data/failing_disk.h"

namespace fovea::data::testing {
namespace {

// Written while no other thread reads files of the test.
struct DiskState {
  std::atomic<bool> is_active = false;
  dev_t device = 0;
  ino_t inode = 0;
  DiskFault fault = DiskFault::kEio;
  int64_t first = 0, last = 0;
  std::atomic<int64_t> calls = 0;
};
DiskState disk;
std::atomic<int64_t> num_bytes_read = 0;

ssize_t counted(ssize_t got) {
  if (got > 0) num_bytes_read += got;
  return got;
}

bool is_failing_file(int file) {
  struct stat status {};
  return disk.is_active && fstat(file, &status) == 0 && status.st_dev == disk.device &&
         status.st_ino == disk.inode;
}

bool is_failing_range(int64_t offset, size_t count) {
  return offset < disk.last && offset + static_cast<int64_t>(count) > disk.first;
}

// How many bytes the system is asked for instead; nothing: the call fails, errno is set.
std::optional<size_t> allowed(int file, int64_t offset, size_t count) {
  if (!is_failing_file(file) || !is_failing_range(offset, count)) return count;
  const int64_t call = ++disk.calls;
  if (disk.fault == DiskFault::kTrickle && call % 2 == 0) return std::min<size_t>(count, 7);
  errno = disk.fault == DiskFault::kTrickle ? EINTR : EIO;
  return std::nullopt;
}

// Where in the failing file a mapped address lies; nothing: elsewhere.
std::optional<int64_t> mapped_offset(const void* address) {
  std::ifstream maps("/proc/self/maps");
  const auto place = reinterpret_cast<uintptr_t>(address);
  for (std::string line; std::getline(maps, line);) {
    uintptr_t start = 0, end = 0;
    unsigned long offset = 0, inode = 0;  // NOLINT: what sscanf's %lu is
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx %*s %lu", &start, &end, &offset, &inode) != 4)
      continue;
    if (place < start || place >= end || inode != disk.inode) continue;
    return static_cast<int64_t>(offset + (place - start));
  }
  return std::nullopt;
}

}  // namespace

FailingDisk::FailingDisk(const std::string& path, DiskFault fault, int64_t first, int64_t last) {
  struct stat status {};
  if (disk.is_active || stat(path.c_str(), &status) != 0) std::abort();
  disk.device = status.st_dev;
  disk.inode = status.st_ino;
  disk.fault = fault;
  disk.first = first;
  disk.last = last;
  disk.calls = 0;
  disk.is_active = true;
}

FailingDisk::~FailingDisk() { disk.is_active = false; }

int64_t FailingDisk::calls() { return disk.calls; }

int64_t bytes_read() { return num_bytes_read; }

extern "C" {

ssize_t read(int file, void* out, size_t count) {
  if (disk.is_active) {
    const auto wanted = allowed(file, lseek(file, 0, SEEK_CUR), count);
    if (!wanted) return -1;
    count = *wanted;
  }
  return counted(syscall(SYS_read, file, out, count));
}

ssize_t pread(int file, void* out, size_t count, off_t offset) {
  if (disk.is_active) {
    const auto wanted = allowed(file, offset, count);
    if (!wanted) return -1;
    count = *wanted;
  }
  return counted(syscall(SYS_pread64, file, out, count, offset));
}

ssize_t pread64(int file, void* out, size_t count, off64_t offset) {
  return pread(file, out, count, offset);
}

int madvise(void* address, size_t count, int advice) noexcept {
  if (disk.is_active && disk.fault == DiskFault::kEio) {
    const auto offset = mapped_offset(address);
    if (offset && is_failing_range(*offset, count)) {
      ++disk.calls;
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(syscall(SYS_madvise, address, count, advice));
}

}  // extern "C"

}  // namespace fovea::data::testing
