#include "fovea/config/checked_config.h"

#include <string>

#include "fovea/core/error.h"

namespace fovea {

void throw_issues(std::string_view name, const ConfigIssues& issues) {
  std::string message;
  for (const auto& issue : issues.all()) message += "\n  " + issue.key + ": " + issue.message;
  if (!message.empty()) fail<ConfigError>("{}:{}", name, message);
}

}  // namespace fovea
