// The checksum of Fovea's data files: XXH3, 64 bits, seed 0 (xxHash 0.8, whose output is fixed). It
// finds damage, not intent, at the speed of memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace fovea {

uint64_t checksum(std::span<const uint8_t> bytes);
uint64_t checksum(std::string_view text);

}  // namespace fovea
