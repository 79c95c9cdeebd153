// What the tests of imports look at.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "fovea/config/node.h"
#include "fovea/recipe_import/recipe_import.h"

namespace fovea::recipe_import {

inline std::string sample(const std::string& file) {
  return FOVEA_SOURCE_DIR "/tests/recipe_import/samples/" + file;
}

// The value of a key of the recipe, in one line of YAML; "(none)": it is not there.
inline std::string value_in(const std::string& yaml, const std::string& key) {
  const auto root = parse_config_yaml(yaml, "recipe");
  const ConfigNode* node = &root;
  for (size_t first = 0; node != nullptr && first <= key.size();) {
    const auto dot = std::min(key.find('.', first), key.size());
    node = node->find(key.substr(first, dot - first));
    first = dot + 1;
  }
  return node ? emit_yaml_flow(*node) : "(none)";
}

// Each phase as a recipe of its own.
inline std::vector<std::string> phases_in(const std::string& yaml) {
  std::vector<std::string> texts;
  const auto root = parse_config_yaml(yaml, "recipe");
  const auto* phases = root.find("phases");
  if (phases == nullptr) return texts;
  for (const auto& phase : phases->children) texts.push_back(emit_yaml(phase));
  return texts;
}

inline const ImportRow& row_of(const ImportedRecipe& recipe, const std::string& key) {
  for (const auto& row : recipe.rows) {
    if (row.key == key) return row;
  }
  throw std::runtime_error("no row of " + key);
}

}  // namespace fovea::recipe_import
