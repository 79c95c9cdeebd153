#include "fovea/core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace fovea {

FileLock::FileLock(const std::filesystem::path& path, int flags, unsigned mode)
    : file_(open(path.c_str(), flags | O_CLOEXEC, mode)) {}

FileLock::~FileLock() {
  if (is_open()) close(file_);
}

bool FileLock::try_lock(bool is_shared) {
  return flock(file_, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0;
}

bool FileLock::lock() {
  while (flock(file_, LOCK_EX) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

}  // namespace fovea
