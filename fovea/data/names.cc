#include "fovea/data/names.h"

#include <fmt/format.h>

#include <cstdint>

namespace fovea::data {
namespace {

// Length of the UTF-8 sequence at the front of `text`; 0: not UTF-8.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const auto follows = [&](size_t count) {
    for (size_t i = 1; i <= count; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return false;
    }
    return true;
  };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xC2 && byte(0) <= 0xDF && follows(1)) return 2;
  if (byte(0) >= 0xE0 && byte(0) <= 0xEF && follows(2)) {
    const bool is_overlong = byte(0) == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = byte(0) == 0xED && byte(1) >= 0xA0;
    return is_overlong || is_surrogate ? 0 : 3;
  }
  if (byte(0) >= 0xF0 && byte(0) <= 0xF4 && follows(3)) {
    const bool is_overlong = byte(0) == 0xF0 && byte(1) < 0x90;
    const bool is_too_large = byte(0) == 0xF4 && byte(1) >= 0x90;
    return is_overlong || is_too_large ? 0 : 4;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const size_t length = utf8_sequence(name);
    const auto first = static_cast<uint8_t>(name[0]);
    if (length == 0 || first < 0x20 || first == 0x7f) {
      text += fmt::format("\\x{:02x}", first);
      name.remove_prefix(1);
    } else {
      text += name.substr(0, length);
      name.remove_prefix(length);
    }
  }
  return text;
}

std::string lower_ending(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  std::string ending(name.substr(dot));
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return ending;
}

bool is_image_name(std::string_view name) {
  const std::string ending = lower_ending(name);
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

}  // namespace fovea::data
