#include "fovea/checkpoint/byte_sum.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace fovea::checkpoint {

std::string byte_sum(const void* data, size_t bytes) {
  return fmt::format("{:016x}", XXH3_64bits(data, bytes));
}

}  // namespace fovea::checkpoint
