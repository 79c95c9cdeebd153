// Locks of the system on files and folders, which go with the process that has them, however it
// ends.
#pragma once

#include <filesystem>

namespace fovea {

// A file that is held open for its lock.
class FileLock {
 public:
  // flags: of open(2), such as O_CREAT | O_RDWR, or O_RDONLY | O_DIRECTORY. Where it cannot be
  // opened is_open() is false, and errno says why.
  FileLock(const std::filesystem::path& path, int flags, unsigned mode = 0644);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool is_open() const { return file_ >= 0; }
  // A lock that others may share, or no other has. False: it is not to be had now, and errno says
  // why; EWOULDBLOCK: somebody else has one.
  bool try_lock(bool is_shared = false);
  // Waits for it. False: it cannot be had, and errno says why.
  bool lock();

 private:
  int file_;
};

}  // namespace fovea
