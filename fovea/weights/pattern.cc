#include "fovea/weights/pattern.h"

#include "fovea/core/error.h"

namespace fovea::weights {
namespace {

constexpr size_t kMaxMatchedBytes = 512;  // std::regex recurses with the length of the text

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view(".[]()^$*+?{}\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string_view group_of(char key) {
  if (key == 'p') return "(weight|bias)";
  return key == '*' ? "(.+)" : "([0-9]{1,6})";
}

size_t end_of(std::string_view text, size_t start, char closing) {
  const auto end = text.find(closing, start);
  FOVEA_CHECK(end != std::string_view::npos, "pattern '{}' has no {}", text, closing);
  return end;
}

}  // namespace

Pattern::Pattern(std::string_view text) : text_(text) {
  std::string regex;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '{') {
      keys_ += text[i + 1];
      regex += group_of(text[i + 1]);
      i = end_of(text, i, '}');
    } else if (text[i] == '<') {
      const auto end = end_of(text, i, '>');
      regex += "(?:" + escaped(text.substr(i + 1, end - i - 1)) + ")";
      i = end;
    } else {
      regex += escaped(text.substr(i, 1));
    }
  }
  regex_ = std::regex(regex, std::regex::optimize);
}

std::optional<Pattern::Captures> Pattern::match(const std::string& name) const {
  std::smatch groups;
  // Most names are of another rule, which their start tells without the regular expression.
  if (!name.starts_with(std::string_view(text_).substr(0, text_.find_first_of("{<")))) return {};
  if (name.size() > kMaxMatchedBytes || !std::regex_match(name, groups, regex_)) return {};
  Captures captures;
  for (size_t i = 0; i < keys_.size(); ++i) captures[keys_[i]] = groups[i + 1].str();
  return captures;
}

std::optional<std::string> Pattern::expand(const Captures& captures) const {
  std::string name;
  for (size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '{') {
      const auto found = captures.find(text_[i + 1]);
      if (found == captures.end()) return {};
      name += found->second;
      i = text_.find('}', i);
    } else if (text_[i] == '<') {
      const auto end = text_.find('>', i);
      name += text_.substr(i + 1, std::min(text_.find('|', i), end) - i - 1);
      i = end;
    } else {
      name += text_[i];
    }
  }
  return name;
}

}  // namespace fovea::weights
