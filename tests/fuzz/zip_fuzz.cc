// Zip archives of NumPy arrays: any bytes are read or refused with a DataError.
#include "fovea/core/error.h"
#include "fovea/data/datasets/arrays.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  try {
    const fovea::ZipFile zip(file.path());
    for (const auto& member : zip.members()) {
      try {
        auto array = std::make_shared<const std::string>(zip.read(member, 1 << 20));
        fovea::data::labels_of(fovea::data::parse_npy(std::move(array), "fuzz"));
      } catch (const fovea::DataError&) {
      }
    }
  } catch (const fovea::DataError&) {
  }
  return 0;
}
