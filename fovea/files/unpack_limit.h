// What a compressed file may unpack to: a few megabytes of zeros, deflated, fill any memory.
#pragma once

#include <cstdint>
#include <string>

namespace fovea {

// Real data is packed by less than this; masks and blank volumes by more, but they are small.
inline constexpr uint64_t kMaxUnpackRatio = 64;
inline constexpr int64_t kDefaultUnpackedBytes = int64_t{1} << 30;
inline constexpr const char* kUnpackedBytesHelp =
    "most bytes that a file which unpacks to more than 64 times its own size may unpack to";

// Throws DataError naming the file and the key where `unpacked` is above both `max_unpacked_bytes`
// and kMaxUnpackRatio times `packed`.
void check_unpacked_bytes(uint64_t packed, uint64_t unpacked, int64_t max_unpacked_bytes,
                          const std::string& name);

}  // namespace fovea
