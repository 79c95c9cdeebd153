// A file that is there whole or not at all, whatever happens while it is written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace fovea {

// Bytes go to a temporary file in the same folder; commit() brings them to the disk and gives the
// file its name. Without commit() the temporary file is removed and an older file of that name
// stays. All functions throw WriteError naming the path and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // At a place instead of behind what was written last; what is left out reads as zeros.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  void commit();
  int descriptor() const { return file_; }

 private:
  [[noreturn]] void fail_with_errno(const char* what) const;

  std::string path_, temporary_;
  int file_ = -1;
};

// A small file in one go.
void write_file_atomic(const std::string& path, std::string_view text);

}  // namespace fovea
