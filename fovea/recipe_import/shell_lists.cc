#include "fovea/recipe_import/shell_lists.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

#include "fovea/core/parse_number.h"

namespace fovea::recipe_import {
namespace {

ShellWords range_of(int64_t first, int64_t step, int64_t last) {
  ShellWords words;
  if (step == 0) return words;
  for (auto i = first; step > 0 ? i <= last : i >= last; i += step) {
    if (words.size() > kMaxShellTurns) break;
    words.push_back({fmt::format("{}", i)});
  }
  return words;
}

}  // namespace

std::optional<ShellWords> words_of_seq(const std::string& command) {
  std::istringstream text(command);
  std::vector<int64_t> numbers;
  std::string word;
  if (!(text >> word) || word != "seq") return {};
  while (text >> word) {
    const auto number = parse_number<int64_t>(word);
    if (!number) return {};
    numbers.push_back(*number);
  }
  if (numbers.size() == 1) return range_of(1, 1, numbers[0]);
  if (numbers.size() == 2) return range_of(numbers[0], 1, numbers[1]);
  if (numbers.size() == 3) return range_of(numbers[0], numbers[1], numbers[2]);
  return {};
}

std::optional<ShellWords> words_of_braces(const std::string& word) {
  if (!word.starts_with('{') || !word.ends_with('}')) return {};
  const auto inner = word.substr(1, word.size() - 2);
  if (const auto dots = inner.find(".."); dots != std::string::npos) {
    const auto first = parse_number<int64_t>(inner.substr(0, dots));
    const auto last = parse_number<int64_t>(inner.substr(dots + 2));
    if (first && last) return range_of(*first, *first <= *last ? 1 : -1, *last);
  }
  if (inner.find(',') == std::string::npos) return {};
  ShellWords words;
  std::istringstream text(inner);
  for (std::string part; std::getline(text, part, ',');) words.push_back({part});
  return words;
}

}  // namespace fovea::recipe_import
