// Sets a config's fields from a JSON object, through its field list: for goldens that carry the
// configs they were made with.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fovea/config/fields.h"

namespace fovea::support {

struct FieldsFromJson {
  const nlohmann::json& values;

  template <class T>
  void field(const char* name, T& member, const char*, const FieldOptions& = {}) {
    if (!values.contains(name)) return;
    if constexpr (requires(FieldsFromJson & reader) { T::visit(reader, member); }) {
      FieldsFromJson reader{values.at(name)};
      T::visit(reader, member);
    } else {
      member = values.at(name).template get<T>();
    }
  }
  template <class T>
  void field(const char* name, std::optional<T>& member, const char*, const FieldOptions& = {}) {
    if (values.contains(name)) member = values.at(name).template get<T>();
  }
};

template <class Config>
Config config_from_json(const nlohmann::json& values) {
  Config config;
  FieldsFromJson reader{values};
  Config::visit(reader, config);
  return config;
}

}  // namespace fovea::support
