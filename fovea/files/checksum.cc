#include "fovea/files/checksum.h"

// The whole of xxHash in this file: no library to link.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fovea {

uint64_t checksum(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace fovea
