#include "fovea/config/issues.h"

#include <utility>

namespace fovea {

void ConfigIssues::add(std::string_view key, std::string message) {
  issues_.push_back({std::string(key), std::move(message)});
}

void ConfigIssues::add(std::string_view key, std::initializer_list<std::string_view> beside,
                       std::string message) {
  issues_.push_back({std::string(key), std::move(message), {beside.begin(), beside.end()}});
}

void ConfigIssues::join(std::string_view section, const ConfigIssues& from,
                        std::initializer_list<std::string_view> beside) {
  const std::string prefix = std::string(section) + ".";
  for (ConfigIssue issue : from.all()) {
    issue.key.insert(0, prefix);
    for (auto& key : issue.beside) key.insert(0, prefix);
    issue.beside.insert(issue.beside.end(), beside.begin(), beside.end());
    issues_.push_back(std::move(issue));
  }
}

}  // namespace fovea
