// TIFF files: any bytes are read by region or refused with a DataError.
#include <algorithm>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/large_image/tiff.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  try {
    const auto source = fovea::data::open_tiff(file.path());
    const auto& format = source->format();
    const int64_t height = std::min<int64_t>(format.size.height, 40);
    const int64_t width = std::min<int64_t>(format.size.width, 40);
    std::vector<uint8_t> pixels(static_cast<size_t>(height * width * format.pixel_bytes()));
    // The last corner first: what follows goes back.
    source->read({format.size.height - height, format.size.width - width, {height, width}}, pixels);
    source->read({0, 0, {height, width}}, pixels);
  } catch (const fovea::DataError&) {
  }
  return 0;
}
