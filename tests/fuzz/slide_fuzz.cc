// Whole-slide images: any bytes are opened by OpenSlide and read by region, or refused with a
// DataError.
#include <algorithm>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/large_image/slide.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile file(bytes, size);
  try {
    const fovea::data::Slide slide(file.path());
    for (int64_t level = 0; level < std::ssize(slide.levels()); ++level) {
      const auto& whole = slide.levels()[static_cast<size_t>(level)].size;
      const int64_t height = std::min<int64_t>(whole.height, 40);
      const int64_t width = std::min<int64_t>(whole.width, 40);
      std::vector<uint8_t> pixels(static_cast<size_t>(height * width * 3));
      try {  // a tile that is damaged is that tile's
        slide.read(level, {whole.height - height, whole.width - width, {height, width}}, pixels);
      } catch (const fovea::DataError&) {
      }
      slide.read(level, {0, 0, {height, width}}, pixels);
    }
  } catch (const fovea::DataError&) {
  } catch (const fovea::ConfigError&) {  // a build without OpenSlide
  }
  return 0;
}
