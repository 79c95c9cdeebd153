// NIfTI files, plain and gzip: any bytes are read or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/data/formats/nifti.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  for (const bool canonical : {false, true}) {
    try {
      const auto stored = fovea::data::open_nifti(file.path(), {.canonical = canonical});
      fovea::data::LabelMap mask;
      fovea::data::Volume volume;
      fovea::data::convert_volume(stored, volume);
      fovea::data::convert_labels(stored, {.num_classes = 1 << 30}, mask);
    } catch (const fovea::DataError&) {
    }
  }
  return 0;
}
