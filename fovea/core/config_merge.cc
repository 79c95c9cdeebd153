#include "fovea/core/config_merge.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace fovea::detail {
namespace {

bool is_map(const ConfigNode& node) { return node.kind == ConfigNode::Kind::kMap; }

// Whether `changes` gives `key` another scalar than `node` has.
bool names_another(const ConfigNode& changes, const ConfigNode& node, std::string_view key) {
  const ConfigNode* name = changes.find(key);
  if (!name || name->kind != ConfigNode::Kind::kScalar) return false;
  const ConfigNode* current = node.find(key);
  return !current || current->scalar != name->scalar;
}

void erase_key(ConfigNode& map, std::string_view key) {
  const auto found = std::find(map.keys.begin(), map.keys.end(), key);
  if (found == map.keys.end()) return;
  map.children.erase(map.children.begin() + (found - map.keys.begin()));
  map.keys.erase(found);
}

// A section with presets is given anew where another one is named: the keys that the old preset
// filled in would otherwise hide those of the new one.
void merge_section(const SectionBinding& section, const ConfigNode& changes, ConfigNode& node) {
  if (section.has_presets() && names_another(changes, node, "preset")) {
    node = changes;
    return;
  }
  const auto fields = section.fields();
  for (size_t i = 0; i < changes.keys.size(); ++i) {
    const auto& key = changes.keys[i];
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const ConfigField& f) { return f.name == key; });
    ConfigNode* current = node.find(key);
    if (field == fields.end() || !current) {
      put_value(node, key, changes.children[i]);
    } else {
      merge_changes(*field->binding, changes.children[i], *current);
    }
    if (field == fields.end() || says_nothing(changes.children[i])) continue;
    for (const auto& other : field->options.instead_of) {
      if (!changes.find(other)) erase_key(node, other);
    }
  }
}

void merge_one_of(const OneOfBinding& one_of, const ConfigNode& changes, ConfigNode& node) {
  const std::string tag(one_of.tag());
  if (!is_map(changes)) {  // the short form: the name alone
    const bool is_same = changes.kind == ConfigNode::Kind::kScalar &&
                         changes.scalar == one_of.names().at(one_of.index());
    if (!is_same) node = changes;
    return;
  }
  if (names_another(changes, node, tag)) {
    node = changes;
    return;
  }
  const ConfigNode name = *node.find(tag);
  ConfigNode own = changes;  // the tag is no field of the alternative
  erase_key(own, tag);
  merge_section(*one_of.chosen(), own, node);
  if (!node.find(tag)) node.add(tag, name);
}

}  // namespace

bool says_nothing(const ConfigNode& value) {
  switch (value.kind) {
    case ConfigNode::Kind::kNull:
      return true;
    case ConfigNode::Kind::kScalar:
      return value.scalar.empty();
    case ConfigNode::Kind::kList:
    case ConfigNode::Kind::kMap:
      return value.children.empty();
  }
  return false;
}

void put_value(ConfigNode& map, const std::string& key, ConfigNode value) {
  if (ConfigNode* current = map.find(key)) {
    *current = std::move(value);
  } else {
    map.add(key, std::move(value));
  }
}

void merge_changes(const ConfigBinding& binding, const ConfigNode& changes, ConfigNode& node) {
  const auto kind = binding.kind();
  if (kind == ConfigBinding::Kind::kOneOf) {
    return merge_one_of(static_cast<const OneOfBinding&>(binding), changes, node);
  }
  if (is_map(changes) && is_map(node)) {
    if (kind == ConfigBinding::Kind::kSection) {
      return merge_section(static_cast<const SectionBinding&>(binding), changes, node);
    }
    if (kind == ConfigBinding::Kind::kOptional) {
      const auto value = static_cast<const OptionalBinding&>(binding).value();
      if (value) return merge_changes(*value, changes, node);
    }
  }
  node = changes;
}

void quote_words(ConfigNode& node) {
  for (auto& child : node.children) quote_words(child);
  node.patch = false;
  if (node.kind != ConfigNode::Kind::kScalar || node.quoted) return;
  const auto is_safe = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_./+-@").find(c) != std::string_view::npos;
  };
  node.quoted = !std::all_of(node.scalar.begin(), node.scalar.end(), is_safe);
}

}  // namespace fovea::detail
