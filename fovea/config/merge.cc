#include "fovea/config/merge.h"

#include <algorithm>
#include <cctype>
#include <optional>
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

bool is_same_place(const ConfigOrigin& a, const ConfigOrigin& b) {
  return a.source == b.source && a.line == b.line;
}

// The alternative that a map names, or the default one; nothing: there is none of that name.
std::optional<size_t> alternative_of(const OneOfBinding& one_of, const ConfigNode& map) {
  const ConfigNode* name = map.find(one_of.tag());
  if (!name) return one_of.index();
  const auto names = one_of.names();
  const auto found = std::find(names.begin(), names.end(), name->scalar);
  if (found == names.end()) return {};
  return static_cast<size_t>(found - names.begin());
}

bool knows(const SectionBinding& section, const std::string& key) {
  if (key == "preset" && section.has_presets()) return true;
  const auto fields = section.fields();
  return std::any_of(fields.begin(), fields.end(),
                     [&](const ConfigField& field) { return field.name == key; });
}

void drop_old_keys_of_fields(const SectionBinding& section, const ConfigNode& before,
                             ConfigNode& node) {
  for (const ConfigField& field : section.fields()) {
    const ConfigNode* old = before.find(field.name);
    ConfigNode* current = node.find(field.name);
    if (old && current) drop_old_keys(*field.binding, *old, *current);
  }
}

void drop_old_keys_of_one_of(const OneOfBinding& one_of, const ConfigNode& before,
                             ConfigNode& node) {
  if (!is_map(before) || !is_map(node)) return;  // the short form has no keys
  const auto old = alternative_of(one_of, before), chosen = alternative_of(one_of, node);
  if (!old || !chosen) return;  // a fault, told where the tree is read
  const ConfigPrototype old_type = one_of.prototype(*old), type = one_of.prototype(*chosen);
  const auto& known_before = static_cast<const SectionBinding&>(*old_type.binding);
  const auto& known = static_cast<const SectionBinding&>(*type.binding);
  for (size_t i = node.keys.size(); *old != *chosen && i-- > 0;) {
    const std::string key = node.keys[i];
    const ConfigNode* written = before.find(key);
    const bool is_old = written && is_same_place(written->origin, node.children[i].origin);
    if (!is_old || key == one_of.tag() || knows(known, key) || !knows(known_before, key)) continue;
    node.keys.erase(node.keys.begin() + static_cast<int64_t>(i));
    node.children.erase(node.children.begin() + static_cast<int64_t>(i));
  }
  drop_old_keys_of_fields(known, before, node);
}

}  // namespace

void drop_old_keys(const ConfigBinding& binding, const ConfigNode& before, ConfigNode& node) {
  switch (binding.kind()) {
    case ConfigBinding::Kind::kOneOf:
      return drop_old_keys_of_one_of(static_cast<const OneOfBinding&>(binding), before, node);
    case ConfigBinding::Kind::kSection:
      return drop_old_keys_of_fields(static_cast<const SectionBinding&>(binding), before, node);
    case ConfigBinding::Kind::kOptional: {
      const auto inner = static_cast<const OptionalBinding&>(binding).prototype();
      return drop_old_keys(*inner.binding, before, node);
    }
    case ConfigBinding::Kind::kList: {
      if (before.kind != ConfigNode::Kind::kList || node.kind != before.kind) return;
      const auto inner = static_cast<const ListBinding&>(binding).prototype();
      const size_t count = std::min(before.children.size(), node.children.size());
      for (size_t i = 0; i < count; ++i)
        drop_old_keys(*inner.binding, before.children[i], node.children[i]);
      return;
    }
    case ConfigBinding::Kind::kMap: {
      if (!is_map(before) || !is_map(node)) return;
      const auto inner = static_cast<const MapBinding&>(binding).prototype();
      for (size_t i = 0; i < node.keys.size(); ++i) {
        if (const ConfigNode* old = before.find(node.keys[i]))
          drop_old_keys(*inner.binding, *old, node.children[i]);
      }
      return;
    }
    default:
      return;
  }
}

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
