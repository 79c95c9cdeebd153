// Sizes from headers: any bytes give none, or the size that decoding gives.
#include <cstdlib>
#include <span>

#include "fovea/core/error.h"
#include "fovea/data/image/decode.h"
#include "fovea/data/image/image_header.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const fovea::fuzz::MemoryFile memory(bytes, size);
  const auto found = fovea::data::image_file_size(memory.path());
  if (!found || found->height * found->width > (1 << 20)) return 0;
  static fovea::data::Image image;
  try {
    fovea::data::decode_image({bytes, size}, "fuzz", image);
    if (image.height != found->height || image.width != found->width) abort();
  } catch (const fovea::DataError&) {
  }
  return 0;
}
