#include "fovea/config/checked_config.h"

#include <string>

#include "fovea/core/error.h"

namespace fovea {

void throw_issues(std::string_view name, const ConfigIssues& issues) {
  std::string message;
  for (const auto& [key, text] : issues.all()) message += "\n  " + key + ": " + text;
  if (!message.empty()) fail<ConfigError>("{}:{}", name, message);
}

void join_issues(ConfigIssues& issues, std::string_view section, const ConfigIssues& from) {
  for (const auto& [key, text] : from.all()) issues.add(std::string(section) + "." + key, text);
}

}  // namespace fovea
