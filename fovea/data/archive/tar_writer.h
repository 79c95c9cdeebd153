// Tar archives, written so that every reader takes them and equal content gives equal bytes: ustar
// headers, a pax record where a name is long; no owner, no time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fovea::data {

// What stands in front of a file's bytes: one block, or three where `name` has over 100 bytes.
std::string tar_header(std::string_view name, uint64_t size);

// Zeros that follow `size` bytes up to the next block.
std::string tar_padding(uint64_t size);

// Two blocks of zeros.
std::string tar_end();

}  // namespace fovea::data
