// Files that readers open by name without looking at what they are.
#pragma once

#include <string>

namespace fovea::data {

// Throws DataError where `path` is a pipe, a device, a socket or a folder: opening or reading one
// could wait for ever. A file that is not there is left to who opens it.
void check_regular_file(const std::string& path);

}  // namespace fovea::data
