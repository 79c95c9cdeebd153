// Where a key stands in a JSON text: for messages about a value that was read from it.
#pragma once

#include <cstdint>
#include <string_view>

namespace fovea {

// The line, from 1, of the value at a path such as "computation[3].forward_ms"; of as much of the
// path as is there, so that a key that is missing gives the line of the object without it. The text
// may be cut off or broken behind that; 0: nothing of the path is there.
int64_t json_line_of(std::string_view text, std::string_view path);

}  // namespace fovea
