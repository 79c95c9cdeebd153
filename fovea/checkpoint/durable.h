// Files with checksums, and folders, that are on the disk when a call returns: what a checkpoint is
// made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "fovea/files/sha256.h"

namespace fovea::checkpoint {

// A file being written for the first time, with its checksum. All functions throw CheckpointError
// naming the file and the system's reason.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void write(const void* data, size_t bytes);
  // On the disk after this. Returns the SHA-256 of the contents.
  std::string finish();
  uint64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail_with_errno(const char* what) const;

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
  Sha256 hash_;
};

// Makes the names in a folder durable.
void sync_folder(const std::filesystem::path& folder);

// Moves `from` to `to`, whole; what was at `to` before goes away with it. The names are durable
// when it returns.
void move_folder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace fovea::checkpoint
