// NIfTI files, plain and gzip: any bytes are read or refused with a DataError, and a region of what
// is read has the same numbers.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "fovea/core/error.h"
#include "fovea/data/volume/nifti_file.h"
#include "tests/fuzz/memory_file.h"

namespace {

// The last voxel of each channel, by itself.
void check_region(fovea::data::VolumeFile& file, const fovea::data::Volume& volume) {
  const auto& size = volume.size;
  const fovea::data::VolumeRegion region{
      {size.depth - 1, size.height - 1, size.width - 1}, {1, 1, 1}, size};
  fovea::data::Volume part;
  convert_volume(file.read_region(region), part);
  for (int64_t c = 0; c < volume.channels; ++c) {
    const float whole = volume.values[static_cast<size_t>((c + 1) * size.voxels() - 1)];
    if (std::memcmp(&whole, &part.values[static_cast<size_t>(c)], sizeof(float)) != 0) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  for (const bool canonical : {false, true}) {
    try {
      const auto opened = fovea::data::open_nifti(file.path(), {.canonical = canonical});
      const auto stored = opened->read();
      fovea::data::LabelMap mask;
      fovea::data::Volume volume;
      fovea::data::convert_volume(stored, volume);
      check_region(*opened, volume);
      fovea::data::convert_labels(stored, {.num_classes = 1 << 30}, mask);
    } catch (const fovea::DataError&) {
    }
  }
  return 0;
}
