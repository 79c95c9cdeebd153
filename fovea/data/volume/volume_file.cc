#include "fovea/data/volume/volume_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// Bytes between two rows that are read with them: they share pages of the disk, and a call less
// is worth more than they cost.
constexpr int64_t kMaxGapBytes = 4096;

// The pieces of a file that hold a volume: `count` of the axes that lie furthest apart are walked,
// the rest lies in one piece of `piece` elements.
struct Pieces {
  std::array<size_t, 4> axes = {};  // the furthest first
  size_t count = 0;
  int64_t piece = 1;
};

Pieces pieces_of(const StoredVolume& stored) {
  const auto sizes = stored.sides();
  std::array<size_t, 4> axes = {0, 1, 2, 3};
  std::stable_sort(axes.begin(), axes.end(), [&](size_t a, size_t b) {
    return std::abs(stored.strides[a]) > std::abs(stored.strides[b]);
  });
  Pieces pieces{.axes = axes, .count = 4};
  while (pieces.count > 0) {
    const size_t axis = axes[pieces.count - 1];
    const int64_t stride = std::abs(stored.strides[axis]);
    const int64_t gap = (stride - pieces.piece) * bytes_of(stored.type);
    if (sizes[axis] > 1 && gap > kMaxGapBytes) break;
    pieces.piece += (sizes[axis] - 1) * stride;
    --pieces.count;
  }
  return pieces;
}

// Element of the file that comes first.
int64_t lowest_element(const StoredVolume& stored) {
  const auto sizes = stored.sides();
  int64_t lowest = stored.first;
  for (size_t axis = 0; axis < 4; ++axis)
    lowest += std::min<int64_t>((sizes[axis] - 1) * stored.strides[axis], 0);
  return lowest;
}

// Reads the pieces one behind the other, and gives the volume the strides that it has there.
void gather(const ByteSource& file, uint64_t offset, StoredVolume& stored) {
  const auto sizes = stored.sides();
  const Pieces pieces = pieces_of(stored);
  const int64_t bytes = bytes_of(stored.type), lowest = lowest_element(stored);
  int64_t num_pieces = 1;
  auto strides = stored.strides;
  for (size_t i = pieces.count; i-- > 0;) {
    const size_t axis = pieces.axes[i];
    const int64_t stride = num_pieces * pieces.piece;
    strides[axis] = stored.strides[axis] < 0 ? -stride : stride;
    num_pieces *= sizes[axis];
  }
  const int64_t total = num_pieces * pieces.piece * bytes;
  const std::shared_ptr<uint8_t[]> buffer(new uint8_t[static_cast<size_t>(total)]);  // no zeros
  std::array<int64_t, 4> place = {};
  for (int64_t n = 0; n < num_pieces; ++n) {
    int64_t element = lowest;
    for (size_t i = 0; i < pieces.count; ++i)
      element += place[i] * std::abs(stored.strides[pieces.axes[i]]);
    file.read(offset + static_cast<uint64_t>(element * bytes),
              {buffer.get() + n * pieces.piece * bytes, static_cast<size_t>(pieces.piece * bytes)});
    for (size_t i = pieces.count; i-- > 0;) {
      if (++place[i] < sizes[pieces.axes[i]]) break;
      place[i] = 0;
    }
  }
  stored.strides = strides;
  stored.first = 0;
  stored.first = -lowest_element(stored);
  stored.bytes = {buffer.get(), static_cast<size_t>(total)};
  stored.owner = buffer;
}

}  // namespace

StoredVolume VolumeFile::read_region(const VolumeRegion& region) {
  StoredVolume stored = read();
  narrow(stored, region);
  return stored;
}

ArrayFile::ArrayFile(std::shared_ptr<const ByteSource> file, StoredVolume layout, uint64_t offset)
    : file_(std::move(file)), layout_(std::move(layout)), offset_(offset) {}

StoredVolume ArrayFile::read() {
  StoredVolume stored = layout_;
  gather(*file_, offset_, stored);
  return stored;
}

StoredVolume ArrayFile::read_region(const VolumeRegion& region) {
  StoredVolume stored = layout_;
  narrow(stored, region);
  gather(*file_, offset_, stored);
  return stored;
}

}  // namespace fovea::data
