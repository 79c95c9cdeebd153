// What holds for the reader of any format of volumes.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/volume/scan_grid.h"
#include "fovea/data/volume/volume_file.h"
#include "tests/fuzz/memory_file.h"

namespace fovea::fuzz {

// The last voxel of each channel, by itself.
inline void check_region(data::VolumeFile& file, const data::Volume& volume) {
  const auto& size = volume.size;
  const data::VolumeRegion region{
      {size.depth - 1, size.height - 1, size.width - 1}, {1, 1, 1}, size};
  data::Volume part;
  convert_volume(file.read_region(region), part);
  for (int64_t c = 0; c < volume.channels; ++c) {
    const float whole = volume.values[static_cast<size_t>((c + 1) * size.voxels() - 1)];
    if (std::memcmp(&whole, &part.values[static_cast<size_t>(c)], sizeof(float)) != 0) std::abort();
  }
}

// Any bytes are read or refused with a DataError.
inline void check_scan(const uint8_t* bytes, size_t size,
                       std::unique_ptr<data::VolumeFile> (*open)(const std::string& path,
                                                                 const data::ScanOptions&)) {
  const MemoryFile file(bytes, size);
  for (const bool canonical : {false, true}) {
    try {
      const auto opened = open(file.path(), {.canonical = canonical});
      const auto stored = opened->read();
      data::LabelMap mask;
      data::Volume volume;
      data::convert_volume(stored, volume);
      check_region(*opened, volume);
      data::convert_labels(stored, {.num_classes = 1 << 30}, mask);
    } catch (const DataError&) {
    }
  }
}

}  // namespace fovea::fuzz
