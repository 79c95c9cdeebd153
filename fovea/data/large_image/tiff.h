// TIFF and BigTIFF images through libtiff, read and written a part at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "fovea/data/large_image/region_source.h"

namespace fovea::data {

// By the first four bytes: both byte orders, TIFF and BigTIFF.
bool is_tiff(std::span<const uint8_t> bytes);
// The same of a file. Throws DataError where it cannot be read.
bool is_tiff_file(const std::string& path);

// Tiles, or strips; without compression, or packed by LZW, deflate, PackBits or JPEG; gray, RGB (as
// YCbCr too where it is JPEG) or more channels, interleaved or plane after plane; uint8, uint16,
// int16, uint32, int32 or float32. `directory`: which of the file's images; the first is the one of
// full size in pyramids. Nothing is read but the directory until a region is. Strips are decoded
// row by row, so that of a large one only the packed bytes are in memory; a row above the last one
// starts its strip anew. Throws
// DataError naming the file: not TIFF, truncated, damaged, of another kind, with tiles or a
// directory that are too large.
std::unique_ptr<RegionSource> open_tiff(const std::string& path, int64_t directory = 0);

// The same, where the pixels of a region are those that decode_image makes of the whole file and
// cost little more than themselves: bytes of gray or RGB in tiles, or in strips that are few rows.
// Null: they are not, or the file is no TIFF.
std::unique_ptr<RegionSource> open_tiff_pixels(const std::string& path);

// What reads and writes a tile holds it in memory: a row of tiles at a time when writing.
inline constexpr int64_t kMaxTiffTileBytes = int64_t{256} << 20;

struct TiffWriterOptions {
  ImageSize size;
  int64_t channels = 1;
  ScalarType type = ScalarType::kUint8;  // uint8, uint16, int16, uint32, int32 or float32
  std::string compression = "deflate";   // "none", "lzw" or "deflate"
};

// Writes a tiled TIFF from above to below, whole rows at a time; BigTIFF where it could pass 4 GB.
// Memory: one row of tiles, whose side is 256 or, for very wide images, less. The file gets its
// name in finish(); without it nothing stays behind. Throws ConfigError for options that cannot be,
// WriteError where the disk is full or cannot be written.
class TiffWriter {
 public:
  TiffWriter(const std::string& path, const TiffWriterOptions& options);
  ~TiffWriter();
  TiffWriter(const TiffWriter&) = delete;
  TiffWriter& operator=(const TiffWriter&) = delete;

  // `count` rows [count, W, C], the machine's byte order.
  void write_rows(std::span<const uint8_t> rows, int64_t count);
  // All rows must have been written.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::data
