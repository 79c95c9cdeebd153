// Volumes of packed shards: any bytes are read or refused with a DataError.
#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/volume/packed_volume.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace fovea::data;
  const std::span<const uint8_t> all(bytes, size);
  try {
    if (size < kPackedVolumeHeaderBytes) return 0;
    const uint64_t head =
        packed_volume_head_bytes(all.first(kPackedVolumeHeaderBytes), size, "fuzz");
    const PackedVolume packed = parse_packed_volume(all.first(head), size, "fuzz");
    const VolumeSize& whole = packed.size;
    VolumeRegion region{
        .start = {whole.depth / 2, whole.height / 2, whole.width / 2}, .size = {}, .whole = whole};
    region.size = {std::min<int64_t>(whole.depth - region.start[0], 40),
                   std::min<int64_t>(whole.height - region.start[1], 40),
                   std::min<int64_t>(whole.width - region.start[2], 40)};
    if (packed.channels * packed.chunk.voxels() > 1 << 20) return 0;
    Volume volume;
    LabelMap mask;
    read_packed_region(
        packed, region,
        [&](const PackedChunk& chunk) { return all.subspan(chunk.offset, chunk.bytes); }, "fuzz",
        volume, mask);
  } catch (const fovea::DataError&) {
  }
  return 0;
}
