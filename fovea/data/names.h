// Names of files as they may stand in messages, reports and JSON.
#pragma once

#include <string>
#include <string_view>

namespace fovea::data {

// Bytes that are not UTF-8 as \xNN. Control characters too, so that a file name cannot write to the
// terminal.
std::string printable(std::string_view name);

// The ending, from the last dot on, in lower case; empty where there is no dot.
std::string lower_ending(std::string_view name);

// Ends with .jpg, .jpeg or .png, in any case.
bool is_image_name(std::string_view name);

}  // namespace fovea::data
