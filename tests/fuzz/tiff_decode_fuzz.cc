// TIFF files as images: any bytes are decoded whole or refused with a DataError.
#include <span>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/data/image/tiff_decode.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  fovea::mute_log();  // of several pages
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static fovea::data::Image image;  // its buffer is used again, as in a loader
  try {
    fovea::data::decode_tiff({bytes, size}, image);
    const auto pixels = static_cast<size_t>(image.height * image.width * image.channels);
    if (pixels == 0 || pixels != image.pixels.size()) __builtin_trap();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
