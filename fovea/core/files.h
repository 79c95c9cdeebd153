// Files: reading with a cap and writing so that a crash, a full disk or a power cut leaves the old
// file or the new one.
#pragma once

#include <cstdint>
#include <string>

namespace fovea {

// The whole file. Throws DataError naming the path where it cannot be read or is larger than
// max_bytes.
std::string read_file(const std::string& path, uint64_t max_bytes);

}  // namespace fovea
