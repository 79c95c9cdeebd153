// Zip archives of stored members, zip64 where sizes ask for it. Format: PKWARE's APPNOTE 6.3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/files/atomic_file.h"

namespace fovea {

// Writes to a file that its owner commits after finish(). All functions throw Error as AtomicFile.
class ZipWriter {
 public:
  // alignment: of each member's first byte, in the file.
  explicit ZipWriter(AtomicFile& file, uint64_t alignment = 1)
      : file_(file), alignment_(alignment) {}

  // name: not there yet, below 65536 bytes.
  void add(const std::string& name, std::span<const std::byte> bytes);
  // The directory: nothing may be added afterwards.
  void finish();
  // Bytes written so far.
  uint64_t position() const { return position_; }

 private:
  struct Entry {
    std::string name;
    uint32_t crc = 0;
    uint64_t bytes = 0, offset = 0;
  };
  void write(const std::string& text);

  AtomicFile& file_;
  uint64_t alignment_;
  uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace fovea
