#include "fovea/core/json_line.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fovea/core/parse_number.h"

namespace fovea {
namespace {

struct Step {
  std::string key;     // of an object
  int64_t index = -1;  // of a list
};

// Nothing: not of the form that messages have.
std::optional<std::vector<Step>> steps_of(std::string_view path) {
  std::vector<Step> steps;
  while (!path.empty()) {
    if (path.front() == '.') path.remove_prefix(1);
    if (path.starts_with('[')) {
      const auto end = path.find(']');
      if (end == path.npos) return {};
      const auto index = parse_number<int64_t>(path.substr(1, end - 1));
      if (!index || *index < 0) return {};
      steps.push_back({.key = {}, .index = *index});
      path.remove_prefix(end + 1);
      continue;
    }
    const auto end = std::min(path.find_first_of(".["), path.size());
    if (end == 0) return {};
    steps.push_back({.key = std::string(path.substr(0, end))});
    path.remove_prefix(end);
  }
  return steps;
}

// Goes over a text without building anything; at the end of a text that is cut off it stays there.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool is_over() const { return at_ >= text_.size(); }
  char next() {
    while (!is_over() && std::string_view(" \t\r\n,:").find(text_[at_]) != std::string_view::npos) {
      ++at_;
    }
    return is_over() ? '\0' : text_[at_];
  }
  void skip_char() { ++at_; }
  size_t place() const { return std::min(at_, text_.size()); }

  std::string_view string() {
    const auto begin = ++at_;
    while (!is_over() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    const auto found =
        text_.substr(std::min(begin, text_.size()), place() - std::min(begin, place()));
    ++at_;
    return found;
  }

  void value() {
    int64_t depth = 0;
    do {
      const char c = next();
      if (c == '"') {
        string();
      } else if (c == '{' || c == '[') {
        ++depth, ++at_;
      } else if (c == '}' || c == ']') {
        --depth, ++at_;
      } else {
        at_ = std::min(text_.find_first_of(" \t\r\n,:]}", at_), text_.size());
      }
    } while (depth > 0 && !is_over());
  }

  // To the value that a step leads to from the one that begins here.
  bool go(const Step& step) {
    const bool is_list = step.index >= 0;
    if (next() != (is_list ? '[' : '{')) return false;
    ++at_;
    for (int64_t i = 0; !is_over(); ++i) {
      const char c = next();
      if (c == ']' || c == '}' || c == '\0') return false;
      if (is_list && i == step.index) return true;
      if (!is_list && string() == step.key) return next() != '\0';
      value();
    }
    return false;
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

int64_t json_line_of(std::string_view text, std::string_view path) {
  const auto steps = steps_of(path);
  if (!steps || steps->empty()) return 0;
  Scanner scanner(text);
  size_t place = 0;
  bool is_there = false;
  for (const auto& step : *steps) {
    if (!scanner.go(step)) break;
    is_there = true;
    place = scanner.place();
  }
  return is_there
             ? 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(place), '\n')
             : 0;
}

}  // namespace fovea
