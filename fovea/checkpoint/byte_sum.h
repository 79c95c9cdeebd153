// A quick checksum of bytes that are read by themselves, such as one slice of a file.
#pragma once

#include <cstddef>
#include <string>

namespace fovea::checkpoint {

// XXH3 of the bytes, as 16 hexadecimal digits: against damage, not against malice.
std::string byte_sum(const void* data, size_t bytes);

}  // namespace fovea::checkpoint
