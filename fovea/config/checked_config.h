// Configs that come from code. Those of a recipe are checked as they are read, section by section.
#pragma once

#include <string_view>

#include "fovea/config/fields.h"

namespace fovea {

// Throws ConfigError with every issue, each on a line with its key; without any it does nothing.
// name: whose config it is, such as "vit".
void throw_issues(std::string_view name, const ConfigIssues& issues);

template <class Config>
void check_config(std::string_view name, const Config& config) {
  ConfigIssues issues;
  config.validate(issues);
  throw_issues(name, issues);
}

// With those of the part of it that stands under the key `section`.
template <class Config, class Part>
void check_config(std::string_view name, const Config& config, std::string_view section,
                  const Part& part) {
  ConfigIssues issues, of_part;
  part.validate(of_part);
  issues.join(section, of_part);
  config.validate(issues);
  throw_issues(name, issues);
}

}  // namespace fovea
