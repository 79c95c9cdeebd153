// Text to a number, all of it or not at all.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace fovea {

// T: an integer or a floating-point type. Nothing where `text` is not such a number from its first
// byte to its last, or one that T does not hold: blanks and a "+" in front are refused too.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace fovea
