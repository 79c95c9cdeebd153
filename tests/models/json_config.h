// Fields of a typed config from a golden file's JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fovea/core/config_fields.h"

namespace fovea::models {

struct JsonReader {
  const nlohmann::json& json;

  template <class T>
  void field(const char* name, T& value, const char*, const FieldOptions& = {}) {
    if (json.contains(name)) read(json[name], value);
  }

 private:
  template <class T>
  void read(const nlohmann::json& entry, T& value) {
    if constexpr (requires { T::visit(*this, value); }) {
      JsonReader inner{entry};
      T::visit(inner, value);
    } else {
      entry.get_to(value);
    }
  }
  template <class T>
  void read(const nlohmann::json& entry, std::optional<T>& value) {
    value = entry.get<T>();
  }
};

template <class Config>
Config config_from_json(const nlohmann::json& json) {
  Config config;
  JsonReader reader{json};
  Config::visit(reader, config);
  return config;
}

}  // namespace fovea::models
