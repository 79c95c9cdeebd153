#include "fovea/train/recipe/model_recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/models/registry.h"
#include "fovea/train/recipe/recipe_files.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::train {
namespace {

// Whether `section.key` stands in the recipe or among the changes to it.
bool is_given(const ConfigNode& root, const std::vector<std::string>& overrides,
              const std::string& section, const std::string& key) {
  const auto* node = root.find(section);
  if (node != nullptr && node->find(key) != nullptr) return true;
  const auto starts = {section + "." + key + "=", section + "="};
  return std::any_of(overrides.begin(), overrides.end(), [&](const std::string& text) {
    return std::any_of(starts.begin(), starts.end(),
                       [&](const std::string& start) { return text.starts_with(start); });
  });
}

TrainConfig parse_model_recipe(const std::string& yaml, const std::string& source,
                               std::vector<std::string> overrides) {
  const auto root = parse_config_yaml(yaml, source);
  const auto given = overrides;
  const auto name = std::filesystem::path(source).stem().string();
  if (!is_given(root, given, "run", "dir")) overrides.push_back("run.dir=runs/" + name);
  if (!is_given(root, given, "trainer", "max_epochs") &&
      !is_given(root, given, "trainer", "max_steps")) {
    overrides.emplace_back("trainer.max_epochs=1");
  }
  return parse_config<TrainConfig>(yaml, source, overrides);
}

}  // namespace

bool is_recipe(const std::string& path) {
  return (path.ends_with(".yaml") || path.ends_with(".yml")) && is_there(path);
}

TrainConfig load_model_recipe(const std::string& path, const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = read_file(path, kMaxConfigBytes);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
  return parse_model_recipe(text, path, overrides);
}

TrainConfig recipe_of_model(const std::string& name, const std::vector<std::string>& overrides) {
  const auto yaml =
      fmt::format("model: {{name: {}, preset: {}}}", models::named_config(name).name(), name);
  return parse_model_recipe(yaml, name, overrides);
}

TrainConfig recipe_of_section(const nlohmann::json& section, const std::string& source,
                              const std::vector<std::string>& overrides) {
  return parse_model_recipe(json_text(nlohmann::json{{"model", section}}), source, overrides);
}

NamedModel find_model(const std::string& source) {
  if (is_run_folder(source)) return {.config = load_run_config(source)};
  if (is_recipe(source)) return {.config = load_model_recipe(source)};
  if (models::is_model_name(source)) {
    return {.config = recipe_of_model(source), .is_preset = true};
  }
  fail<ConfigError>("--model {}: neither the name of a model, nor a recipe, nor a run folder{}",
                    source, or_nearest_target(source));
}

}  // namespace fovea::train
