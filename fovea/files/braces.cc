#include "fovea/files/braces.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"

namespace fovea {
namespace {

constexpr size_t kMaxNames = 1'000'000;
constexpr size_t kMaxBraceDepth = 16;

std::optional<int64_t> integer(std::string_view text) {
  const auto value = parse_number<int64_t>(text);
  constexpr int64_t kLargest = int64_t{1} << 53;  // so that steps do not overflow
  const bool is_small = value && *value > -kLargest && *value < kLargest;
  return is_small ? value : std::nullopt;
}

size_t zero_width(std::string_view text) {
  const size_t sign = text.starts_with('-') ? 1 : 0;
  return text.size() > sign + 1 && text[sign] == '0' ? text.size() : 0;
}

void check_count(uint64_t count, std::string_view pattern) {
  if (count > kMaxNames) {
    fail<ConfigError>("\"{}\" stands for {} names or more; expected at most {}", pattern, count,
                      kMaxNames);
  }
}

// "a..b" or "a..b..step"; nothing where it is not a range.
std::optional<std::vector<std::string>> range_of(std::string_view body, std::string_view pattern) {
  const size_t dots = body.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const auto low = body.substr(0, dots);
  auto high = body.substr(dots + 2);
  int64_t step = 1;
  if (const size_t more = high.find(".."); more != std::string_view::npos) {
    const auto given = integer(high.substr(more + 2));
    if (!given || *given == 0) return std::nullopt;
    step = std::abs(*given);
    high = high.substr(0, more);
  }
  const auto first = integer(low), last = integer(high);
  if (!first || !last) return std::nullopt;
  check_count(static_cast<uint64_t>(std::abs(*last - *first) / step) + 1, pattern);
  const size_t width = std::max(zero_width(low), zero_width(high));
  std::vector<std::string> names;
  for (int64_t value = *first; *first <= *last ? value <= *last : value >= *last;
       value += *first <= *last ? step : -step) {
    names.push_back(fmt::format("{:0{}}", value, width));
  }
  return names;
}

// The parts between commas that stand in no inner braces.
std::vector<std::string_view> split_list(std::string_view body) {
  std::vector<std::string_view> parts;
  size_t first = 0;
  int64_t depth = 0;
  for (size_t i = 0; i <= body.size(); ++i) {
    if (i == body.size() || (body[i] == ',' && depth == 0)) {
      parts.push_back(body.substr(first, i - first));
      first = i + 1;
    } else {
      depth += body[i] == '{' ? 1 : body[i] == '}' ? -1 : 0;
    }
  }
  return parts;
}

std::vector<std::string> expand(std::string_view pattern, std::string_view whole, size_t depth);

// What one pair of braces stands for; nothing: for itself.
std::vector<std::string> expand_body(std::string_view body, std::string_view whole, size_t depth) {
  if (auto range = range_of(body, whole)) return *range;
  std::vector<std::string> names;
  const auto parts = split_list(body);
  for (const auto part : parts) {
    for (auto& name : expand(part, whole, depth + 1)) names.push_back(std::move(name));
    check_count(names.size(), whole);
  }
  if (parts.size() == 1) {
    for (auto& name : names) name = "{" + name + "}";
  }
  return names;
}

std::vector<std::string> expand(std::string_view pattern, std::string_view whole, size_t depth) {
  if (depth > kMaxBraceDepth) {
    fail<ConfigError>("\"{}\": braces in more than {} others", whole, kMaxBraceDepth);
  }
  std::vector<std::string> names = {""};
  while (!pattern.empty()) {
    const size_t open = std::min(pattern.find('{'), pattern.size());
    for (auto& name : names) name += pattern.substr(0, open);
    pattern.remove_prefix(open);
    if (pattern.empty()) break;
    size_t close = 0;
    for (int64_t level = 0; close < pattern.size(); ++close) {
      level += pattern[close] == '{' ? 1 : pattern[close] == '}' ? -1 : 0;
      if (level == 0) break;
    }
    if (close == pattern.size()) fail<ConfigError>("\"{}\": a brace that does not close", whole);
    const auto choices = expand_body(pattern.substr(1, close - 1), whole, depth);
    check_count(uint64_t{names.size()} * choices.size(), whole);
    std::vector<std::string> longer;
    longer.reserve(names.size() * choices.size());
    for (const auto& name : names) {
      for (const auto& choice : choices) longer.push_back(name + choice);
    }
    names = std::move(longer);
    pattern.remove_prefix(close + 1);
  }
  return names;
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern) {
  return expand(pattern, pattern, 0);
}

}  // namespace fovea
