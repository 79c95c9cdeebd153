#include "fovea/data/names.h"

#include <fmt/format.h>

#include <cstdint>

#include "fovea/core/utf8.h"

namespace fovea::data {

std::string printable(std::string_view name) {
  std::string text;
  while (!name.empty()) {
    const size_t length = utf8_length(name);
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
