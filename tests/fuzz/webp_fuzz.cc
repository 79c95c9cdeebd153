// WebP files: any bytes are decoded or refused with a DataError.
#include <span>

#include "fovea/core/error.h"
#include "fovea/data/image/webp.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static fovea::data::Image image;  // its buffer is used again, as in a loader
  try {
    fovea::data::decode_webp({bytes, size}, image);
    const auto pixels = static_cast<size_t>(image.height * image.width * image.channels);
    if (pixels == 0 || pixels != image.pixels.size()) __builtin_trap();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
