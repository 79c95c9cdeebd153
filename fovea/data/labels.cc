#include "fovea/data/labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/parse_number.h"
#include "fovea/core/text.h"

namespace fovea::data {

void check_class_count(const std::optional<int64_t>& num_classes,
                       const std::vector<std::string>& class_names, ConfigIssues& issues) {
  if (!num_classes || class_names.empty() || *num_classes == std::ssize(class_names)) return;
  issues.add("num_classes", {"class_names"},
             fmt::format("{}, but class_names has {} entries; make them equal or leave one out",
                         *num_classes, class_names.size()));
}

std::optional<int64_t> integer_in(std::string_view text) {
  return parse_number<int64_t>(trimmed(text));
}

}  // namespace fovea::data
