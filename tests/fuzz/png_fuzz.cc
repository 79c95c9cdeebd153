// PNG files: any bytes are decoded or refused with a DataError.
#include <zlib.h>

#include <span>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/image/png.h"

namespace {

// With the checksum of each chunk made right: no change of a fuzzer keeps it, so that nothing
// behind the check would ever be reached.
std::vector<uint8_t> with_checksums(std::vector<uint8_t> bytes) {
  constexpr size_t kSignature = 8, kHead = 8, kSum = 4;
  for (size_t at = kSignature; bytes.size() - at >= kHead + kSum;) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | bytes[at + i];
    if (length > bytes.size() - at - kHead - kSum) break;
    const auto sum = crc32(0, bytes.data() + at + 4, static_cast<unsigned>(length + 4));
    at += kHead + length;
    for (size_t i = 0; i < kSum; ++i) bytes[at + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += kSum;
  }
  return bytes;
}

void decode(std::span<const uint8_t> bytes) {
  static fovea::data::Image image;  // its buffer is used again, as in a loader
  try {
    fovea::data::decode_png(bytes, image);
    const auto pixels = static_cast<size_t>(image.height * image.width * image.channels);
    if (pixels == 0 || pixels != image.pixels.size()) __builtin_trap();
  } catch (const fovea::DataError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  decode({bytes, size});
  if (size >= 8) decode(with_checksums({bytes, bytes + size}));
  return 0;
}
