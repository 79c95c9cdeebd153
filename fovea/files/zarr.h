// Arrays of zarr's format 2 as folders: `.zarray`, a JSON text that describes them, and a file for
// each chunk. Format: zarr-specs, v2/v2.0.rst; bfloat16 as tensorstore writes it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/files/npy.h"

namespace fovea {

// Of one array, in bytes: its values, one of its chunks.
inline constexpr uint64_t kMaxZarrBytes = uint64_t{1} << 34;

// What `.zarray` says.
struct ZarrHeader {
  std::string dtype;  // NumPy's code, little-endian; "|V2" for bfloat16, as in .npy files of JAX
  bool is_swapped = false;  // the chunks are big-endian
  int64_t item_bytes = 0;
  std::vector<int64_t> shape, chunks;
  std::string compressor;   // "gzip", "zlib", "zstd"; empty: none
  bool is_fortran = false;  // within a chunk the first index runs fastest
  char separator = '.';
  std::vector<uint8_t> fill;  // of one item
};

// Throws DataError naming `source`: not such a text, another format, filters, another compressor
// (Blosc is refused by name), a dtype that is no plain number, more bytes than max_bytes.
ZarrHeader parse_zarr_header(const std::string& text, const std::string& source,
                             uint64_t max_bytes = kMaxZarrBytes);
// `folder`/.zarray.
ZarrHeader read_zarr_header(const std::string& folder, uint64_t max_bytes = kMaxZarrBytes);

// The values in C order. A chunk that has no file is the fill value; of these no more than a GiB is
// taken for what was never written. Throws DataError: chunks that are cut off or of another size.
NpyArray read_zarr(const std::string& folder, const ZarrHeader& header);

}  // namespace fovea
