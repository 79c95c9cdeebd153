// Names of files, and small files as a whole.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fovea {

// Whether something stands under a name, links followed. True also where that cannot be looked at
// (no permission, links that lead in a circle, a name that is too long): who opens it says why.
// Neither throws, as those of std::filesystem do.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

// The whole file. Throws DataError naming the path where it cannot be read, is no regular file or
// is larger than max_bytes, of which nothing is read then.
std::string read_file(const std::string& path, uint64_t max_bytes);
// The first bytes of a file: fewer where it is shorter. Throws DataError as read_file.
std::string read_start(const std::string& path, size_t bytes);

}  // namespace fovea
