#include "fovea/data/volume/packed_volume.h"

#include <zstd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/data/labels.h"
#include "fovea/data/volume/stored_volume.h"
#include "fovea/files/byte_reader.h"
#include "fovea/files/checksum.h"
#include "fovea/files/decompress.h"
#include "fovea/files/little_endian.h"

namespace fovea::data {
namespace {

static_assert(std::endian::native == std::endian::little, "chunks are written as they lie");

constexpr int kZstdLevel = 3;
constexpr uint8_t kNoMask = 255;
constexpr int64_t kMaxChunkValues = int64_t{1} << 28;

using Sides = std::array<int64_t, 3>;  // D, H, W

VolumeSize size_of_sides(const Sides& sides) { return {sides[0], sides[1], sides[2]}; }

// Chunks along each axis.
Sides grid_of(const VolumeSize& size, const VolumeSize& chunk) {
  Sides grid = size.sides();
  const Sides step = chunk.sides();
  for (size_t axis = 0; axis < 3; ++axis) grid[axis] = (grid[axis] + step[axis] - 1) / step[axis];
  return grid;
}

// The voxels of chunk [a, b, c] of the grid.
VolumeRegion chunk_region(const PackedVolume& packed, const Sides& place) {
  const Sides whole = packed.size.sides(), step = packed.chunk.sides();
  VolumeRegion region{.start = {}, .size = {}, .whole = packed.size};
  Sides sides;
  for (size_t axis = 0; axis < 3; ++axis) {
    region.start[axis] = place[axis] * step[axis];
    sides[axis] = std::min(step[axis], whole[axis] - region.start[axis]);
  }
  region.size = size_of_sides(sides);
  return region;
}

template <class F>
void for_each_place(const Sides& first, const Sides& last, const F& work) {
  for (int64_t a = first[0]; a < last[0]; ++a) {
    for (int64_t b = first[1]; b < last[1]; ++b) {
      for (int64_t c = first[2]; c < last[2]; ++c) work(Sides{a, b, c});
    }
  }
}

template <class T, class Value>
bool holds_all(const std::vector<Value>& values) {
  return std::all_of(values.begin(), values.end(), [](Value value) {
    if (!(value >= static_cast<Value>(std::numeric_limits<T>::min()) &&
          value <= static_cast<Value>(std::numeric_limits<T>::max()))) {
      return false;
    }
    const Value back = static_cast<Value>(static_cast<T>(value));
    return std::memcmp(&back, &value, sizeof(Value)) == 0;  // -0 is not 0
  });
}

ScalarType smallest_type(const std::vector<float>& values) {
  if (holds_all<uint8_t>(values)) return ScalarType::kUint8;
  if (holds_all<int8_t>(values)) return ScalarType::kInt8;
  if (holds_all<uint16_t>(values)) return ScalarType::kUint16;
  if (holds_all<int16_t>(values)) return ScalarType::kInt16;
  return ScalarType::kFloat32;
}

ScalarType smallest_type(const std::vector<int32_t>& classes) {
  if (holds_all<int8_t>(classes)) return ScalarType::kInt8;
  if (holds_all<int16_t>(classes)) return ScalarType::kInt16;
  return ScalarType::kInt32;
}

// A box of [channels, D, H, W] as numbers of type T.
template <class T, class Value>
std::string numbers_of(const std::vector<Value>& values, int64_t channels,
                       const VolumeRegion& region) {
  const auto& [depth, height, width] = region.size;
  std::string bytes(static_cast<size_t>(channels * region.size.voxels()) * sizeof(T), '\0');
  char* out = bytes.data();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t h = 0; h < height; ++h) {
        const int64_t row = ((c * region.whole.depth + region.start[0] + d) * region.whole.height +
                             region.start[1] + h) *
                                region.whole.width +
                            region.start[2];
        for (int64_t w = 0; w < width; ++w, out += sizeof(T)) {
          const auto number = static_cast<T>(values[static_cast<size_t>(row + w)]);
          std::memcpy(out, &number, sizeof(T));
        }
      }
    }
  }
  return bytes;
}

template <class Value>
std::string numbers_of(ScalarType type, const std::vector<Value>& values, int64_t channels,
                       const VolumeRegion& region) {
  switch (type) {
    case ScalarType::kUint8:
      return numbers_of<uint8_t>(values, channels, region);
    case ScalarType::kInt8:
      return numbers_of<int8_t>(values, channels, region);
    case ScalarType::kUint16:
      return numbers_of<uint16_t>(values, channels, region);
    case ScalarType::kInt16:
      return numbers_of<int16_t>(values, channels, region);
    default:  // as they are in memory
      return numbers_of<Value>(values, channels, region);
  }
}

std::string compressed(const std::string& bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), kZstdLevel);
  FOVEA_CHECK(ZSTD_isError(size) == 0, "zstd: {}", ZSTD_getErrorName(size));
  out.resize(size);
  return out;
}

std::string format_head(const PackedVolume& packed) {
  std::string head;
  put(head, static_cast<uint32_t>(packed.channels));
  for (const Sides& sides : {packed.size.sides(), packed.chunk.sides()}) {
    for (const int64_t side : sides) put(head, static_cast<uint32_t>(side));
  }
  put(head, static_cast<uint8_t>(packed.type));
  put(head, packed.mask_type ? static_cast<uint8_t>(*packed.mask_type) : kNoMask);
  put(head, static_cast<uint8_t>(packed.is_compressed ? 1 : 0));
  put(head, uint8_t{0});
  for (const double spacing : packed.spacing) put(head, spacing);
  put(head, uint64_t{packed.chunks.size()});
  put(head, uint64_t{0});
  for (const PackedChunk& chunk : packed.chunks) {
    put(head, chunk.offset);
    put(head, chunk.checksum);
    put(head, chunk.bytes);
    put(head, uint32_t{0});
  }
  return head;
}

// Header without the table, and how many chunks that has.
PackedVolume parse_header(ByteReader& in, uint64_t& num_chunks) {
  PackedVolume packed;
  packed.channels = in.number<uint32_t>();
  for (VolumeSize* size : {&packed.size, &packed.chunk}) {
    size->depth = in.number<uint32_t>();
    size->height = in.number<uint32_t>();
    size->width = in.number<uint32_t>();
  }
  const auto type = in.number<uint8_t>(), mask = in.number<uint8_t>(),
             compression = in.number<uint8_t>();
  in.skip(1);
  for (double& spacing : packed.spacing) spacing = in.number<double>();
  num_chunks = in.number<uint64_t>();
  in.skip(8);
  const auto is_type = [](uint8_t code) {
    return code <= static_cast<uint8_t>(ScalarType::kFloat64);
  };
  const VolumeSize &size = packed.size, &chunk = packed.chunk;
  const std::array<int64_t, 4> whole = {packed.channels, size.depth, size.height, size.width};
  const std::array<int64_t, 4> part = {packed.channels, chunk.depth, chunk.height, chunk.width};
  const bool is_spaced = std::all_of(packed.spacing.begin(), packed.spacing.end(),
                                     [](double one) { return std::isfinite(one) && one > 0; });
  if (checked_voxels(whole) < 0 || checked_voxels(part, kMaxChunkValues) < 0 || !is_type(type) ||
      (mask != kNoMask && !is_type(mask)) || compression > 1 || !is_spaced) {
    fail<DataError>(
        "{}: {} x {} x {} x {} voxels in chunks of {} x {} x {}, types {} and {}, compression {}; "
        "it is damaged: pack again",
        in.source(), whole[0], whole[1], whole[2], whole[3], part[1], part[2], part[3], type, mask,
        compression);
  }
  packed.type = static_cast<ScalarType>(type);
  if (mask != kNoMask) packed.mask_type = static_cast<ScalarType>(mask);
  packed.is_compressed = compression == 1;
  const Sides grid = grid_of(size, chunk);
  const auto expected =
      static_cast<uint64_t>(grid[0] * grid[1] * grid[2]) * (packed.mask_type ? 2 : 1);
  if (num_chunks != expected) {
    fail<DataError>("{}: {} chunks; expected {}; it is damaged: pack again", in.source(),
                    num_chunks, expected);
  }
  return packed;
}

// The numbers of a chunk of `channels`, as they lie in `owner`.
StoredVolume open_chunk(const PackedVolume& packed, const PackedChunk& chunk, ScalarType type,
                        int64_t channels, const VolumeRegion& place, const ReadChunk& read,
                        const std::string& name, std::string& owner) {
  const std::span<const uint8_t> bytes = read(chunk);
  const auto wanted = static_cast<uint64_t>(channels * place.size.voxels() * bytes_of(type));
  StoredVolume stored;
  stored.source = name;
  stored.type = type;
  stored.channels = channels;
  stored.size = place.size;
  stored.origin = place.start;
  const auto strides = row_major_strides(stored.sides());
  std::copy(strides.begin(), strides.end(), stored.strides.begin());
  stored.bytes = bytes;
  if (packed.is_compressed) {
    owner = unzstd_all({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, wanted, name);
    stored.bytes = {reinterpret_cast<const uint8_t*>(owner.data()), owner.size()};
  }
  if (stored.bytes.size() != wanted) {
    fail<DataError>("{}: a chunk of {} bytes; expected {}; pack again", name, stored.bytes.size(),
                    wanted);
  }
  return stored;
}

// What `chunk` and `region` have in common.
VolumeRegion common_part(const VolumeRegion& chunk, const VolumeRegion& region) {
  const Sides a = chunk.size.sides(), b = region.size.sides();
  VolumeRegion part = chunk;
  Sides sides;
  for (size_t axis = 0; axis < 3; ++axis) {
    part.start[axis] = std::max(chunk.start[axis], region.start[axis]);
    sides[axis] =
        std::min(chunk.start[axis] + a[axis], region.start[axis] + b[axis]) - part.start[axis];
  }
  part.size = size_of_sides(sides);
  return part;
}

// Puts [channels, part] to its place in [channels, region].
template <class T>
void insert(const std::vector<T>& values, int64_t channels, const VolumeRegion& part,
            const VolumeRegion& region, std::vector<T>& out) {
  const auto& [depth, height, width] = part.size;
  auto from = values.begin();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t d = 0; d < depth; ++d) {
      for (int64_t h = 0; h < height; ++h, from += width) {
        const int64_t row =
            ((c * region.size.depth + part.start[0] - region.start[0] + d) * region.size.height +
             part.start[1] - region.start[1] + h) *
                region.size.width +
            part.start[2] - region.start[2];
        std::copy_n(from, width, out.begin() + row);
      }
    }
  }
}

}  // namespace

std::vector<uint8_t> encode_packed_volume(const Volume& volume, const LabelMap& mask,
                                          const VolumePacking& packing) {
  PackedVolume packed{.channels = volume.channels,
                      .size = volume.size,
                      .chunk = packing.chunk,
                      .type = smallest_type(volume.values),
                      .is_compressed = packing.is_compressed,
                      .spacing = volume.spacing};
  if (!mask.classes.empty()) packed.mask_type = smallest_type(mask.classes);
  const Sides grid = grid_of(packed.size, packed.chunk);
  packed.chunks.resize(static_cast<size_t>(grid[0] * grid[1] * grid[2]) *
                       (packed.mask_type ? 2 : 1));
  std::string body;
  const uint64_t head_bytes = packed.head_bytes();
  size_t number = 0;
  const auto add = [&](std::string bytes) {
    if (packed.is_compressed) bytes = compressed(bytes);
    packed.chunks[number++] = {head_bytes + body.size(), checksum(bytes),
                               static_cast<uint32_t>(bytes.size())};
    body += bytes;
  };
  for_each_place({}, grid, [&](const Sides& place) {
    add(numbers_of(packed.type, volume.values, volume.channels, chunk_region(packed, place)));
  });
  if (packed.mask_type) {
    for_each_place({}, grid, [&](const Sides& place) {
      add(numbers_of(*packed.mask_type, mask.classes, 1, chunk_region(packed, place)));
    });
  }
  const std::string head = format_head(packed);
  std::vector<uint8_t> bytes(head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

uint64_t packed_volume_head_bytes(std::span<const uint8_t> header, uint64_t bytes,
                                  const std::string& name) {
  ByteReader in(header, name);
  uint64_t num_chunks = 0;
  parse_header(in, num_chunks);
  const uint64_t head = kPackedVolumeHeaderBytes + num_chunks * kPackedChunkBytes;
  if (head > bytes) {
    fail<DataError>("{}: {} bytes with {} chunks; it is truncated: pack again", name, bytes,
                    num_chunks);
  }
  return head;
}

PackedVolume parse_packed_volume(std::span<const uint8_t> head, uint64_t bytes,
                                 const std::string& name) {
  ByteReader in(head, name);
  uint64_t num_chunks = 0;
  PackedVolume packed = parse_header(in, num_chunks);
  if (num_chunks > in.left() / kPackedChunkBytes) {
    fail<DataError>("{}: the table of {} chunks is cut off; pack again", name, num_chunks);
  }
  packed.chunks.resize(num_chunks);
  for (PackedChunk& chunk : packed.chunks) {
    chunk.offset = in.number<uint64_t>();
    chunk.checksum = in.number<uint64_t>();
    chunk.bytes = in.number<uint32_t>();
    in.skip(4);
    if (chunk.bytes > 0 && chunk.offset <= bytes && chunk.bytes <= bytes - chunk.offset) continue;
    fail<DataError>("{}: a chunk of {} bytes at {}, outside of the sample; pack again", name,
                    chunk.bytes, chunk.offset);
  }
  return packed;
}

void read_packed_region(const PackedVolume& packed, const VolumeRegion& region,
                        const ReadChunk& read, const std::string& name, Volume& volume,
                        LabelMap& mask) {
  check_inside(region, packed.size, name);
  const Sides sides = region.size.sides(), step = packed.chunk.sides(),
              grid = grid_of(packed.size, packed.chunk);
  Sides first, last;
  for (size_t axis = 0; axis < 3; ++axis) {
    first[axis] = region.start[axis] / step[axis];
    last[axis] = (region.start[axis] + sides[axis] - 1) / step[axis] + 1;
  }
  volume.channels = packed.channels;
  volume.size = region.size;
  volume.spacing = packed.spacing;
  volume.values.resize(static_cast<size_t>(packed.channels * region.size.voxels()));
  mask.size = packed.mask_type ? region.size : VolumeSize();
  mask.classes.resize(packed.mask_type ? static_cast<size_t>(region.size.voxels()) : 0);
  const LabelRule rule{.num_classes = kMaxClasses, .ignore_values = {-1}};
  const size_t masks = static_cast<size_t>(grid[0] * grid[1] * grid[2]);
  std::vector<float> values;
  LabelMap classes;
  std::string owner;
  for_each_place(first, last, [&](const Sides& place) {
    const auto number = static_cast<size_t>((place[0] * grid[1] + place[1]) * grid[2] + place[2]);
    const VolumeRegion box = chunk_region(packed, place), part = common_part(box, region);
    VolumeRegion inside = part;  // from the chunk's own corner
    for (size_t axis = 0; axis < 3; ++axis) inside.start[axis] -= box.start[axis];
    StoredVolume stored = open_chunk(packed, packed.chunks[number], packed.type, packed.channels,
                                     box, read, name, owner);
    narrow(stored, inside);
    values.resize(static_cast<size_t>(stored.values()));
    convert_values(stored, values.data());
    insert(values, packed.channels, part, region, volume.values);
    if (!packed.mask_type) return;
    stored = open_chunk(packed, packed.chunks[masks + number], *packed.mask_type, 1, box, read,
                        name, owner);
    narrow(stored, inside);
    convert_labels(stored, rule, classes);
    insert(classes.classes, 1, part, region, mask.classes);
  });
}

}  // namespace fovea::data
