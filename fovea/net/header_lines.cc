#include "fovea/net/header_lines.h"

#include <algorithm>

#include "fovea/core/text.h"

namespace fovea::net {
namespace {

constexpr size_t kMaxHeaderBytes = size_t{256} << 10;

// The characters of a token (RFC 9110, 5.6.2).
bool is_header_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return is_letter_or_digit(c) ||
           (c != 0 && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
  });
}

bool has_control_characters(std::string_view value) {
  return std::any_of(value.begin(), value.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
}

}  // namespace

bool HeaderLines::take(std::string_view line) {
  bytes_ += line.size();
  if (bytes_ > kMaxHeaderBytes) return false;
  if (line.substr(0, 5) == "HTTP/") {
    headers_.clear();
    is_ended_ = false;
    return true;
  }
  const auto text = trimmed(line);
  is_ended_ = is_ended_ || text.empty();
  if (is_ended_) return true;
  if (line.front() == ' ' || line.front() == '\t') {  // the line before goes on
    if (!headers_.empty() && !has_control_characters(text)) {
      headers_.back().second.append(1, ' ').append(text);
    }
    return true;
  }
  const auto colon = line.find(':');
  if (colon == line.npos || !is_header_name(line.substr(0, colon))) return true;
  const auto value = trimmed(line.substr(colon + 1));
  if (!has_control_characters(value)) headers_.emplace_back(lowered(line.substr(0, colon)), value);
  return true;
}

}  // namespace fovea::net
