// Memory that a rank shares with the others of its machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace fovea::parallel {

// Where the other ranks of a machine find one.
struct SharedPlace {
  int64_t process = 0;
  int64_t file = -1;   // a descriptor of that process
  uint64_t token = 0;  // what it begins with
};

// Note [Shared files]
// It has no name (memfd), so nothing of it outlives its processes however they
// end, and it counts against no limit of /dev/shm. Its memory is taken when it is made, for what is
// not there when it is touched would be a signal and no error. Others open it through the /proc of
// the process that made it, which takes the same user and the same machine; the number that it
// begins with says whether it is the right one, for another container may have another process of
// that number. Its owner holds a lock on it, which the system takes from a process that ends: so
// others see that it has gone.
class SharedFile {
 public:
  // A new one, of zeros. Throws Error: the system has no such files, or no memory for it.
  static SharedFile make(size_t bytes);
  // Another rank's. Throws Error: it cannot be reached from here, or is another one.
  static SharedFile open(const SharedPlace& place, size_t bytes);

  ~SharedFile();
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  SharedPlace place() const;  // of one's own
  // Whether the rank that made it still has it. Of another rank's.
  bool has_owner() const;

 private:
  SharedFile(int file, size_t bytes);

  int file_;
  size_t bytes_;
  std::byte* data_ = nullptr;
};

}  // namespace fovea::parallel
