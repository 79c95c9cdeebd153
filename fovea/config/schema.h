// JSON schema of a config, for editors and for the reference in docs/. Apart from config.h for the
// weight of json.hpp.
#pragma once

#include <nlohmann/json.hpp>

#include "fovea/config/config.h"

namespace fovea {

namespace detail {
nlohmann::ordered_json section_schema(const SectionBinding& config, const std::string& title);
}  // namespace detail

// Draft 2020-12; keys in the order of the field lists. Ranges, choices, defaults, units and help
// included; what several places take stands once, under $defs.
template <class T>
nlohmann::ordered_json config_schema(const std::string& title = "Fovea recipe") {
  T config;
  return detail::section_schema(detail::BoundSection<T>(config), title);
}

}  // namespace fovea
