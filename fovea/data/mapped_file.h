// A file in memory, read-only, as the system pages it in.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace fovea::data {

// Reading mapped bytes that the disk cannot give, or that another program has cut off, ends the
// process with a signal. `ready` asks for them first and turns that into an error. Thread-safe.
class MappedFile {
 public:
  // Throws DataError: no such file, not a regular file, empty, cannot be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  // `count` bytes from `offset` on, in memory. Throws DataError: past the end, cannot be read.
  std::span<const uint8_t> ready(uint64_t offset, uint64_t count) const;

 private:
  std::string name_;
  const uint8_t* first_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace fovea::data
