// Fovea's packed format, version 1: a folder with shards and manifest.json. Everything is
// little-endian. A shard (docs/data_formats.md has the table):
//
//   header   32 bytes  "FOVEAPK\n", u32 version, u32 32, u64 first sample, u64 0
//   samples            back to back: an image file (JPEG, PNG), pixels [H, W, C], or a volume
//                      (volume/packed_volume.h)
//   index    40 bytes  for each sample: u64 offset, u64 checksum, u32 bytes, i32 label, u32 height,
//                      u32 width, u32 end of its name, u8 channels, u8 encoding, u16 0
//   names              of all samples, one after the other
//   sums     80 bytes  u64 each: gray pixels, sum, sum of squares; RGB pixels, sums, sums of
//   squares footer   64 bytes  u64 index offset, samples, name bytes, checksum of index to sums,
//   file bytes,
//                      first sample; u32 version, u32 0, "FOVEAPK\n"
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::data {

inline constexpr uint32_t kPackedVersion = 1;
inline constexpr size_t kPackedHeaderBytes = 32;
inline constexpr size_t kPackedEntryBytes = 40;
inline constexpr size_t kPackedSumsBytes = 80;
inline constexpr size_t kPackedFooterBytes = 64;
inline constexpr const char* kPackedManifest = "manifest.json";

enum class PackedEncoding : uint8_t { kFile = 0, kPixels = 1, kVolume = 2 };

struct PackedEntry {
  uint64_t offset = 0;    // in the shard
  uint64_t checksum = 0;  // of its bytes; of a volume, of those in front of its chunks
  uint32_t bytes = 0;
  int32_t label = -1;
  uint32_t height = 0, width = 0;
  uint32_t name_end = 0;  // among the shard's names
  uint8_t channels = 0;
  PackedEncoding encoding = PackedEncoding::kFile;
};

// Exact sums over pixel values, from which mean and standard deviation follow; independent of
// order.
struct PixelSums {
  uint64_t gray_pixels = 0, gray_sum = 0, gray_squares = 0;
  uint64_t rgb_pixels = 0;
  std::array<uint64_t, 3> rgb_sum = {}, rgb_squares = {};

  void add(const Image& image);
  void add(const PixelSums& other);
  // Of each channel, on a scale of 0 to 1: one channel where all images are gray, else three (gray
  // ones count in all three). Empty where there are no pixels.
  std::vector<double> mean() const;
  std::vector<double> std() const;
  bool operator==(const PixelSums&) const = default;
};

// What stands behind the samples of a shard, without the samples.
struct PackedShardIndex {
  uint64_t first_sample = 0;
  std::vector<PackedEntry> entries;
  std::string names;
  PixelSums sums;

  int64_t size() const { return static_cast<int64_t>(entries.size()); }
  std::string_view name(int64_t sample) const;
};

std::string format_packed_header(uint64_t first_sample);
// Index, names, sums and footer; `index_offset` is where they begin.
std::string format_packed_tail(const PackedShardIndex& index, uint64_t index_offset);

// How many bytes the tail of a shard has, from its last kPackedFooterBytes. Throws DataError naming
// `name`: no footer, another version, sizes that cannot be.
uint64_t packed_tail_bytes(std::span<const uint8_t> footer, uint64_t file_bytes,
                           const std::string& name);
// Reads header and tail. Throws DataError naming `name`: a wrong checksum, samples outside the
// shard, pixels of another size than height x width x channels.
PackedShardIndex parse_packed_tail(std::span<const uint8_t> header, std::span<const uint8_t> tail,
                                   uint64_t file_bytes, const std::string& name);

struct PackedManifest {
  struct Shard {
    std::string file;  // name in the folder
    int64_t samples = 0;
    uint64_t bytes = 0;
  };
  std::vector<Shard> shards;
  std::vector<std::string> class_names;
  int64_t num_classes = 0;
  std::vector<int64_t> class_counts;  // [num_classes]; empty: no labels
  std::vector<double> mean, std;      // of each channel, on a scale of 0 to 1; of images
  bool has_volumes = false;
  bool has_masks = false;
  int64_t num_samples() const;
};

std::string format_packed_manifest(const PackedManifest& manifest);
// Throws DataError naming `name`: no JSON, another version, keys that are missing, file names with
// folders.
PackedManifest parse_packed_manifest(std::string_view text, const std::string& name);

// "shard_000017.fvp"
std::string packed_shard_name(int64_t shard);

}  // namespace fovea::data
