#include "fovea/files/unpack_limit.h"

#include "fovea/core/error.h"

namespace fovea {

void check_unpacked_bytes(uint64_t packed, uint64_t unpacked, int64_t max_unpacked_bytes,
                          const std::string& name) {
  if (unpacked <= static_cast<uint64_t>(max_unpacked_bytes)) return;
  if (unpacked / kMaxUnpackRatio <= packed) return;
  fail<DataError>(
      "{}: {} bytes that unpack to {}, more than {} times as many; expected at most {} of such a "
      "file: if it is what it should be, raise max_unpacked_bytes of the data set",
      name, packed, unpacked, kMaxUnpackRatio, max_unpacked_bytes);
}

}  // namespace fovea
