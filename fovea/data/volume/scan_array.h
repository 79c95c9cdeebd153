// Where the numbers of a volume lie in a file: as they are, or deflated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fovea/data/volume/volume_file.h"
#include "fovea/files/byte_source.h"

namespace fovea::data {

struct ScanArray {
  std::shared_ptr<const ByteSource> file;
  uint64_t offset = 0;      // of the numbers, or of the deflated stream
  uint64_t data_bytes = 0;  // of the numbers
  bool is_deflated = false;
  uint64_t deflated_bytes = 0;     // of the stream
  uint64_t skip = 0;               // bytes that are inflated before the numbers
  int64_t max_unpacked_bytes = 0;  // see check_unpacked_bytes
};

// Throws DataError naming the file: `data_bytes` at `offset` are more than the `most` bytes that
// there can be.
void check_room(const std::string& source, uint64_t offset, uint64_t data_bytes, uint64_t most);
// Bytes behind the data that are put up with.
inline constexpr uint64_t kMaxScanPadding = 4096;
[[noreturn]] void fail_as_too_long(const std::string& source);

// The numbers that `layout` walks over. Throws DataError: a file that is shorter or longer than its
// header says, or unpacks to too much; of a deflated stream some of it when it is read.
std::unique_ptr<VolumeFile> open_scan_array(ScanArray array, StoredVolume layout);

}  // namespace fovea::data
