#include "fovea/core/printable.h"

#include <fmt/format.h>

#include <cstdint>

#include "fovea/core/utf8.h"

namespace fovea {
namespace {

// The characters of two and three bytes that steer a terminal or the direction of writing.
bool is_steering(std::string_view character) {
  if (character.size() == 2)
    return character[0] == '\xc2' && static_cast<uint8_t>(character[1]) < 0xa0;
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const auto second = static_cast<uint8_t>(character[1]),
             third = static_cast<uint8_t>(character[2]);
  if (second == 0x80) return third >= 0xa8 && third <= 0xae;  // U+2028 to U+202E
  return second == 0x81 && third >= 0xa6 && third <= 0xa9;    // U+2066 to U+2069
}

std::string escaped(std::string_view text, std::string_view kept, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "...";
    const size_t length = utf8_length(text);
    const auto first = static_cast<uint8_t>(text[0]);
    const bool is_control = (first < 0x20 || first == 0x7f) && kept.find(text[0]) == kept.npos;
    const auto character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || is_control || is_steering(character)) {
      for (const char c : character) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      out += character;
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escaped(text, "", std::string::npos); }

std::string printable_start(std::string_view text, size_t max_bytes) {
  return escaped(text, "", max_bytes);
}

std::string printable_lines(std::string_view text) {
  return escaped(text, "\n\t", std::string::npos);
}

}  // namespace fovea
