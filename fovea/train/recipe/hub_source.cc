#include "fovea/train/recipe/hub_source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/printable.h"
#include "fovea/hub/published_model.h"
#include "fovea/models/registry.h"
#include "fovea/models/timm_weights.h"
#include "fovea/train/recipe/model_recipe.h"
#include "fovea/train/recipe/weights_metadata.h"
#include "fovea/weights/read_weights.h"

namespace fovea::train {
namespace {

constexpr uint64_t kMostConfigBytes = 16 << 20;
constexpr int kMostConfigDepth = 16;

std::optional<nlohmann::json> fetch_json(hub::Repository& repository, const std::string& file,
                                         const std::string& source) {
  const auto path = repository.find(file);
  if (!path) return std::nullopt;
  return parse_json(read_file(*path, kMostConfigBytes), source, kMostConfigDepth);
}

// Whether config.json says of which model the weights are.
bool names_model(const nlohmann::json& config) {
  return config.is_object() && (config.contains("architecture") || config.contains("model_type"));
}

// The model's own section, with the name that its preset belongs to.
void name_preset(nlohmann::json& section, const std::string& source) {
  const auto preset = section.at("preset").get<std::string>();
  if (!models::is_model_name(preset)) {
    fail<ConfigError>("{}: of the model '{}', which there is not here; {}", source,
                      printable_start(preset), models::hint_for_model(preset));
  }
  section["name"] = models::named_config(preset).name();
}

bool has_pooler(const std::string& path) {
  const auto file = weights::read_weights(path);
  return std::any_of(file.tensors.begin(), file.tensors.end(),
                     [](const auto& item) { return item.first == "pre_logits.fc.weight"; });
}

}  // namespace

std::optional<hub::HubName> hub_name_of(const std::string& text) {
  if (hub::is_hub_name(text)) return hub::parse_hub_name(text);
  const bool has_tag = text.find('.') != text.npos && text.find('/') == text.npos;
  if (!has_tag || is_there(text)) return std::nullopt;
  const auto repository = models::timm_repository(text);
  if (repository.empty()) return std::nullopt;
  return hub::HubName{.repository = repository};
}

std::optional<PublishedConfig> fetch_config(hub::Repository& repository,
                                            const std::vector<std::string>& overrides) {
  const auto source = repository.text() + ": config.json";
  const auto config = fetch_json(repository, "config.json", source);
  if (!config || !names_model(*config)) return std::nullopt;
  const auto other_source = repository.text() + ": preprocessor_config.json";
  std::optional<nlohmann::json> other;
  if (!config->contains("architecture"))
    other = fetch_json(repository, "preprocessor_config.json", other_source);
  auto model = hub::read_published_model(
      JsonValue(*config, source),
      other ? std::optional(JsonValue(*other, other_source)) : std::nullopt);
  if (model.is_preset) name_preset(model.section, source);
  const auto both = source + (other ? " and preprocessor_config.json" : "");
  return PublishedConfig{.recipe = recipe_of_section(model.section, both, overrides),
                         .is_preset = model.is_preset,
                         .may_have_pooler = model.may_have_pooler};
}

PublishedWeights fetch_published(hub::Repository& repository,
                                 const std::vector<std::string>& overrides) {
  PublishedWeights published{.config = fetch_config(repository, overrides)};
  published.weights = hub::find_weights(repository);
  if (config_of(weights::metadata_of(published.weights), published.weights)) {
    published.config.reset();  // Fovea's own
  } else if (published.config && published.config->may_have_pooler &&
             has_pooler(published.weights)) {
    auto& model = published.config->recipe.model;
    auto vit = *model.get_if<models::VitConfig>();
    vit.representation_size = vit.embed_dim;
    model = {vit};
  }
  return published;
}

}  // namespace fovea::train
