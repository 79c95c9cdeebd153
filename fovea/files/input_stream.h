// A file read from front to back, plain or gzip-compressed: which one is told from its first bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/core/input_file.h"

namespace fovea {

// Whether a file that starts so is gzip-compressed.
bool is_gzip(std::span<const uint8_t> start);

class InputStream {
 public:
  // Throws DataError naming the path and the system's reason.
  explicit InputStream(std::string path);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // Bytes read into `out`; fewer than asked for only at the end. Throws DataError: a disk error, a
  // truncated or damaged gzip stream.
  size_t read(std::span<uint8_t> out);
  // Throws DataError where the file ends before `out` is full; `what` says what was being read.
  void read_exactly(std::span<uint8_t> out, std::string_view what);
  // Seeks where the file is plain. Throws DataError where the file ends before.
  void skip(uint64_t count);

  const std::string& path() const { return path_; }
  bool is_gzip() const { return is_gzip_; }
  uint64_t position() const { return position_; }  // of the decompressed bytes
  uint64_t file_bytes() const { return file_.size(); }
  // The most bytes that can come: the file's size, or what deflate could make of it at best. Sizes
  // in headers are held against it before memory is taken.
  uint64_t most_bytes() const { return most_bytes_; }

 private:
  struct Gzip;
  size_t read_some(std::span<uint8_t> out);

  std::string path_;
  InputFile file_;
  uint64_t file_position_ = 0;
  bool is_gzip_ = false;
  std::unique_ptr<Gzip> gzip_;
  uint64_t position_ = 0;
  uint64_t most_bytes_ = 0;
};

// The first max_bytes bytes of a file, plain or unpacked, or all of it if it is shorter; no more is
// ever held. Throws as InputStream.
std::vector<uint8_t> read_gzip(const std::string& path, size_t max_bytes);

}  // namespace fovea
