// Tar archives, read strictly: ustar, GNU's long names and sizes, pax paths and sizes
// (POSIX.1-2001, "pax Interchange Format"). Entries are found by walking over the headers; their
// bytes are read by whoever wants them, from ByteSource.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "fovea/files/byte_source.h"

namespace fovea::data {

inline constexpr uint64_t kTarBlock = 512;

enum class TarKind { kFile, kFolder, kLink, kDevice };

struct TarEntry {
  std::string name;     // relative, without "." and ".." parts; a folder's without the slash
  uint64_t offset = 0;  // of its bytes in the source
  uint64_t size = 0;    // 0 unless a file
  TarKind kind = TarKind::kFile;
};

// Walks over an archive once, front to back. Throws DataError naming the archive and the byte: a
// wrong checksum, a truncated archive (also one without its end), absolute names, names with "..",
// sparse files, records that are not as the standard has them, bytes after the end.
class TarReader {
 public:
  // `source` outlives the reader.
  explicit TarReader(const ByteSource& source) : source_(source) {}

  // The next entry of any kind; nothing at the end of the archive.
  std::optional<TarEntry> next();
  // The next file. Folders are passed over; links and devices too, and counted.
  std::optional<TarEntry> next_file();

  int64_t num_skipped() const { return num_skipped_; }
  // The first link or device that next_file passed over.
  const std::string& first_skipped() const { return first_skipped_; }

 private:
  struct Extension;

  [[noreturn]] void fail_at(uint64_t offset, const std::string& message) const;
  void check_end(uint64_t offset) const;
  std::string read_text(uint64_t offset, uint64_t size, uint64_t max_bytes) const;
  void read_extension(char type, uint64_t header, uint64_t size, Extension& extension) const;

  const ByteSource& source_;
  uint64_t offset_ = 0;
  bool is_done_ = false;
  int64_t num_skipped_ = 0;
  std::string first_skipped_;
};

// Whether `block` (512 bytes) is a header with a valid checksum that announces `size` bytes: a
// cheap test that an index fits its archive.
bool is_tar_header_of(std::span<const uint8_t> block, uint64_t size);

}  // namespace fovea::data
