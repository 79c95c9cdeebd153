// Whole files, plain or gzip-compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace fovea {

// The first max_bytes bytes of a file, or all of it if it is shorter; a gzip file is decompressed
// as it is read, so that no more than max_bytes are ever held. Throws DataError: cannot open,
// truncated or damaged gzip stream.
std::vector<uint8_t> read_gzip(const std::string& path, size_t max_bytes);

}  // namespace fovea
