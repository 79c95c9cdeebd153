// The safetensors format: an 8-byte little-endian header length, a JSON header, then the tensors'
// bytes. Foreign files are checked in full before any of it is believed: see Note [Safetensors
// checks] in the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/files/mapped_file.h"

namespace fovea {

// One tensor of a file, or one to be written; the bytes belong to the file or to the caller.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL" ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // row-major, little-endian
};

inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;  // the format's own cap, in bytes

// Bytes of one element. Throws DataError for a dtype that the format does not know.
int64_t safetensors_element_bytes(std::string_view dtype);

// A header and what it promises about `data_bytes` bytes of tensors. Throws DataError naming
// `source`.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes; `bytes` is empty
  std::vector<uint64_t> offsets;          // of each entry, from the start of the data
  std::map<std::string, std::string> metadata;
};
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& source);

// A file mapped into memory: reading a tensor touches only its own pages.
class SafetensorsFile {
 public:
  // Throws DataError: missing, truncated, or a header that lies.
  static SafetensorsFile open(const std::string& path);

  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // Null where the file has no such tensor.
  const SafetensorsEntry* find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::shared_ptr<const MappedFile>& mapping() const { return mapping_; }
  // See MappedFile::check_unchanged: call when the entries' bytes have been used, before what was
  // made of them counts.
  void check_unchanged() const { mapping_->check_unchanged(); }

 private:
  SafetensorsFile() = default;
  std::shared_ptr<const MappedFile> mapping_;  // unmapped with the last copy
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::map<std::string, std::string> metadata_;
};

// The bytes before the first tensor: length and header, padded so that the data starts at a
// multiple of 8. Tensors are laid out in the order given.
std::string safetensors_preamble(std::span<const SafetensorsEntry> entries,
                                 const std::map<std::string, std::string>& metadata);

// Writes a whole file, atomically. Throws CheckpointError naming the path and the reason.
// before_commit: called when all is written, and before anything of it stands under its name; what
// it throws leaves the old file.
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const std::map<std::string, std::string>& metadata = {},
                       const std::function<void()>& before_commit = {});

}  // namespace fovea
