// A disk that fails, for one file and this process alone: read(2), pread(2) and madvise(2) of the
// test program go through failing_disk_support.cc, those of the libraries that it uses too.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace fovea::data::testing {

enum class DiskFault {
  kEio,      // the bytes cannot be read
  kTrickle,  // every call gives at most seven bytes, and every other one is interrupted by a signal
};

// While it lives, bytes [first, last) of the file fail. One at a time.
class FailingDisk {
 public:
  FailingDisk(const std::string& path, DiskFault fault, int64_t first = 0,
              int64_t last = std::numeric_limits<int64_t>::max());
  ~FailingDisk();
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;
  // Calls that were answered otherwise than by the system. 0: the test tests nothing.
  static int64_t calls();
};

// Bytes that the test program has been given by read(2) and pread(2) since it started.
int64_t bytes_read();

}  // namespace fovea::data::testing
