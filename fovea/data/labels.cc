#include "fovea/data/labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/parse_number.h"

namespace fovea::data {

void check_class_count(const std::optional<int64_t>& num_classes,
                       const std::vector<std::string>& class_names, ConfigIssues& issues) {
  if (!num_classes || class_names.empty() || *num_classes == std::ssize(class_names)) return;
  issues.add("num_classes", {"class_names"},
             fmt::format("{}, but class_names has {} entries; make them equal or leave one out",
                         *num_classes, class_names.size()));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

std::optional<int64_t> integer_in(std::string_view text) {
  return parse_number<int64_t>(trimmed(text));
}

}  // namespace fovea::data
