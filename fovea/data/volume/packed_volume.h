// A volume, with its mask, in chunks that are read by themselves: what stands in a packed shard for
// a sample of volumes. All numbers are little-endian.
//
//   header    72 bytes  u32 channels, D, H, W; u32 chunk D, H, W; u8 type of the voxels, u8 of the
//                       mask, u8 compression, u8 0; f64 spacing along D, H, W; u64 chunks; u64 0
//   table     24 bytes  for each chunk, those of the voxels, then those of the mask, in row-major
//                       order: u64 offset from the header on, u64 checksum, u32 bytes, u32 0
//   chunks              [C, d, h, w] of the voxels, [d, h, w] of the mask; smaller at the far ends
//
// Types are numbers of ScalarType, 255 for no mask; compression is 0 (none) or 1 (Zstandard).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/scalar_type.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

inline constexpr size_t kPackedVolumeHeaderBytes = 72;
inline constexpr size_t kPackedChunkBytes = 24;  // of the table

struct VolumePacking {
  VolumeSize chunk = {32, 32, 32};
  bool is_compressed = true;
};

struct PackedChunk {
  uint64_t offset = 0;
  uint64_t checksum = 0;
  uint32_t bytes = 0;
};

struct PackedVolume {
  int64_t channels = 0;
  VolumeSize size;
  VolumeSize chunk;
  ScalarType type = ScalarType::kFloat32;
  std::optional<ScalarType> mask_type = {};
  bool is_compressed = false;
  std::array<double, 3> spacing = {1, 1, 1};
  std::vector<PackedChunk> chunks = {};

  // Of header and table.
  uint64_t head_bytes() const {
    return kPackedVolumeHeaderBytes + chunks.size() * kPackedChunkBytes;
  }
};

// The smallest type that holds every voxel, or class, bit for bit: what a scanner stored as 16-bit
// integers is 16-bit integers again. `mask` may be empty.
std::vector<uint8_t> encode_packed_volume(const Volume& volume, const LabelMap& mask,
                                          const VolumePacking& packing);

// How many bytes header and table have, by the header. Throws DataError naming `name` where that is
// more than `bytes`, all that there are, or sizes cannot be.
uint64_t packed_volume_head_bytes(std::span<const uint8_t> header, uint64_t bytes,
                                  const std::string& name);
// Reads header and table. Throws DataError naming `name`: numbers that cannot be, chunks outside of
// `bytes`.
PackedVolume parse_packed_volume(std::span<const uint8_t> head, uint64_t bytes,
                                 const std::string& name);

// `bytes` of a chunk of the table.
using ReadChunk = std::function<std::span<const uint8_t>(const PackedChunk& chunk)>;

// The voxels of a region and, where there is one, its mask: reads the chunks that it touches.
// Throws DataError naming `name`: a chunk that is damaged.
void read_packed_region(const PackedVolume& packed, const VolumeRegion& region,
                        const ReadChunk& read, const std::string& name, Volume& volume,
                        LabelMap& mask);

}  // namespace fovea::data
