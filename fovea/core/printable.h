// Text of others as it may stand on a terminal, in messages, reports and JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace fovea {

// Bytes that are not UTF-8 as \xNN; control characters too, those of Unicode (U+0080 to U+009F, and
// what turns the direction of writing) among them: no name of a file or class writes to the
// terminal or shows another name than its own.
std::string printable(std::string_view text);
// The same, and "..." in place of what is longer than max_bytes: for one line of a message.
std::string printable_start(std::string_view text, size_t max_bytes = 80);
// Of a text of several lines: line feeds and tabs stay.
std::string printable_lines(std::string_view text);

}  // namespace fovea
