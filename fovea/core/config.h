// Loading, printing and describing typed configs (see config_fields.h for how a config is written).
//
// Precedence: defaults < preset < recipe file < `a.b=c` overrides. Every fault is collected and reported at once in
// one ConfigError: file:line, the key, what was found, what is allowed, the nearest known key.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "fovea/core/config_fields.h"

namespace fovea {

// template <class T> T load_config(const std::string& yaml_path, const std::vector<std::string>& overrides);
// template <class T> T parse_config(std::string_view yaml, std::string_view source_name,
//                                   const std::vector<std::string>& overrides);
// template <class T> std::string dump_config(const T& config);             // YAML, every key, parses back to equal
// template <class T> nlohmann::json config_schema();                       // JSON schema (draft 2020-12)
// template <class T> std::vector<ConfigKey> config_keys();                 // flat list: the reference in docs/
// template <class T> std::vector<ConfigDifference> config_diff(const T& a, const T& b);

}  // namespace fovea
