// Zip archives (.npz, .pt), read strictly: stored and deflated members, zip64, checksums. What an
// archive can lie about is checked before memory is taken: sizes, offsets, members that overlap,
// names that lead elsewhere. Format: PKWARE's APPNOTE 6.3.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/core/input_file.h"

namespace fovea {

struct ZipMember {
  std::string name;
  bool is_deflated = false;
  uint32_t crc = 0;
  uint64_t stored_bytes = 0;  // as they lie in the archive
  uint64_t bytes = 0;         // decompressed
  uint64_t header_offset = 0;
};

class ZipFile {
 public:
  // Reads the directory. Throws DataError: not a zip, damaged, encrypted, of several disks, another
  // compression, names that are absolute, hold ".." or a backslash, or stand there twice, members
  // that overlap or announce more than deflate can hold.
  explicit ZipFile(const std::string& path);
  // An archive that is a part of a file: `bytes` bytes from `offset` on.
  ZipFile(const std::string& path, uint64_t offset, uint64_t bytes);
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  const std::string& path() const { return path_; }
  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const;  // null: there is none
  // Throws DataError: larger than max_bytes, truncated, damaged, a wrong checksum. May be called
  // from many threads at once.
  std::string read(const ZipMember& member, uint64_t max_bytes) const;

 private:
  struct Directory;
  std::string bytes_at(uint64_t offset, uint64_t count) const;
  Directory find_directory() const;
  void read_zip64_end(Directory& directory, bool is_needed) const;
  void read_directory(const Directory& directory);
  void check_overlaps(uint64_t directory_offset) const;
  uint64_t data_offset(const ZipMember& member) const;

  InputFile file_;
  std::string path_;    // as messages show it
  uint64_t start_ = 0;  // of the archive in the file
  uint64_t size_ = 0;   // of the archive
  std::vector<ZipMember> members_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace fovea
