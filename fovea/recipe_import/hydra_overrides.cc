#include "fovea/recipe_import/hydra_overrides.h"

#include <algorithm>
#include <vector>

#include "fovea/core/error.h"

namespace fovea::recipe_import {
namespace {

std::vector<std::string> parts_of_key(const std::string& key) {
  std::vector<std::string> parts(1);
  for (const char c : key) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// {a:1} of Hydra's grammar is {a: 1} of YAML.
std::string with_spaces(const std::string& text) {
  if (!text.starts_with('{') && !text.starts_with('[')) return text;
  std::string spaced;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0 ? c == quote : c == '\'' || c == '"') quote = quote != 0 ? 0 : c;
    spaced += c;
    const bool is_colon = c == ':' && quote == 0 && i + 1 < text.size();
    if (is_colon && text[i + 1] != ' ' && text[i + 1] != '/' && text[i + 1] != ':') spaced += ' ';
  }
  return spaced;
}

ConfigNode value_of(const HydraOverride& change) {
  const bool is_plain = change.value.find_first_of("[{\"'$") != 0;
  if (is_plain && change.value.find(',') != std::string::npos) {
    fail<ConfigError>("{}: several values are a sweep of several runs; expected one value",
                      change.text);
  }
  return parse_override_value(with_spaces(change.value), "command line: " + change.text);
}

void erase_key(ConfigNode& map, const std::string& key) {
  const auto at = std::find(map.keys.begin(), map.keys.end(), key) - map.keys.begin();
  map.keys.erase(map.keys.begin() + at);
  map.children.erase(map.children.begin() + at);
}

}  // namespace

HydraOverride parse_hydra_override(const std::string& text) {
  HydraOverride change;
  change.text = text;
  std::string rest = text;
  if (rest.starts_with("++")) {
    change.action = HydraAction::kPut;
    rest = rest.substr(2);
  } else if (rest.starts_with("+")) {
    change.action = HydraAction::kAdd;
    rest = rest.substr(1);
  } else if (rest.starts_with("~")) {
    change.action = HydraAction::kDelete;
    rest = rest.substr(1);
  }
  const auto equals = rest.find('=');
  change.has_value = equals != std::string::npos;
  change.key = rest.substr(0, equals);
  if (change.has_value) change.value = rest.substr(equals + 1);
  if (change.key.empty() || (!change.has_value && change.action != HydraAction::kDelete)) {
    fail<ConfigError>("{}: expected key=value, +key=value, ++key=value or ~key", text);
  }
  return change;
}

void apply_hydra_override(const HydraOverride& change, ConfigNode& root) {
  const auto parts = parts_of_key(change.key);
  ConfigNode* node = &root;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    auto* child = node->kind == ConfigNode::Kind::kMap ? node->find(parts[i]) : nullptr;
    const bool adds = change.action == HydraAction::kAdd || change.action == HydraAction::kPut;
    if (child == nullptr && adds && node->kind == ConfigNode::Kind::kMap) {
      ConfigNode map;
      map.kind = ConfigNode::Kind::kMap;
      child = &node->add(parts[i], map);
    }
    if (child == nullptr) {
      fail<ConfigError>("{}: the configuration has no {}; +{} adds it", change.text, change.key,
                        change.text);
    }
    node = child;
  }
  auto* known = node->kind == ConfigNode::Kind::kMap ? node->find(parts.back()) : nullptr;
  if (change.action == HydraAction::kDelete) {
    if (known == nullptr)
      fail<ConfigError>("{}: the configuration has no {}", change.text, change.key);
    return erase_key(*node, parts.back());
  }
  if (known == nullptr && change.action == HydraAction::kChange) {
    fail<ConfigError>("{}: the configuration has no {}; +{} adds it", change.text, change.key,
                      change.text);
  }
  if (known != nullptr && change.action == HydraAction::kAdd) {
    fail<ConfigError>("{}: the configuration has {} already; without + it is changed", change.text,
                      change.key);
  }
  if (node->kind != ConfigNode::Kind::kMap) {
    fail<ConfigError>("{}: {} stands in {}, expected in a map", change.text, parts.back(),
                      describe_node(*node));
  }
  auto value = value_of(change);
  if (known != nullptr) {
    *known = std::move(value);
  } else {
    node->add(parts.back(), std::move(value));
  }
}

}  // namespace fovea::recipe_import
