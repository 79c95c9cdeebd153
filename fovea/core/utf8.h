// UTF-8, looked at byte by byte.
#pragma once

#include <cstddef>
#include <string_view>

namespace fovea {

// Length of the UTF-8 sequence at the head of `text`, 0 where there is none that is valid: nothing
// left, cut short, overlong, a surrogate, or beyond U+10FFFF.
size_t utf8_length(std::string_view text);
// Whether all of it is valid.
bool is_utf8(std::string_view text);

}  // namespace fovea
