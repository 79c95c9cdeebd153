// JPEG and PNG files with their EXIF data: any bytes are decoded or refused with a DataError.
#include <cstdlib>

#include "fovea/core/error.h"
#include "fovea/data/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  fovea::data::Image image;
  try {
    fovea::data::decode_image({bytes, size}, "fuzz", image);
  } catch (const fovea::DataError&) {
    return 0;
  }
  if (image.pixels.size() != static_cast<size_t>(image.height * image.width * image.channels)) {
    std::abort();
  }
  return 0;
}
