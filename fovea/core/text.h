// Small parts of texts, as files of lines and words are read.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

// Of ASCII, whatever the locale.
constexpr bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether there is nothing else in it; letters in lower case.
bool is_hexadecimal(std::string_view text);

// A to Z as a to z; all other bytes as they are.
std::string lowered(std::string_view text);

// Without blanks and line ends around it.
std::string_view trimmed(std::string_view text);

// The part of `text` up to its next line end, which is taken off its front with it.
std::string_view take_line(std::string_view& text);

// The next word of a line, between blanks; empty: there is none. Taken off its front.
std::string_view take_word(std::string_view& line);

}  // namespace fovea
