#include "fovea/config/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/describe.h"
#include "fovea/config/merge.h"
#include "fovea/config/node.h"
#include "fovea/config/read.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"

namespace fovea::detail {
namespace {

// Walks every key that a config can have; `condition` names the alternatives under which the key is
// known.
void walk_section(const SectionBinding& section, const std::string& prefix,
                  const std::string& condition, std::vector<ConfigKey>& out);

void walk_value(const ConfigBinding& binding, const FieldOptions& options, const std::string& key,
                const std::string& condition, std::vector<ConfigKey>& out) {
  switch (binding.kind()) {
    case ConfigBinding::Kind::kScalar:
    case ConfigBinding::Kind::kTree:
      return;
    case ConfigBinding::Kind::kOptional:
      return walk_value(*static_cast<const OptionalBinding&>(binding).prototype().binding, options,
                        key, condition, out);
    case ConfigBinding::Kind::kList: {
      const ConfigPrototype element = static_cast<const ListBinding&>(binding).prototype();
      return walk_value(*element.binding, options, key + ".*", condition, out);
    }
    case ConfigBinding::Kind::kMap: {
      const ConfigPrototype element = static_cast<const MapBinding&>(binding).prototype();
      return walk_value(*element.binding, options, key + ".*", condition, out);
    }
    case ConfigBinding::Kind::kSection:
      return walk_section(static_cast<const SectionBinding&>(binding), key, condition, out);
    case ConfigBinding::Kind::kOneOf:
      break;
  }
  const auto& one_of = static_cast<const OneOfBinding&>(binding);
  const auto names = one_of.names();
  const std::string tag = join_key(key, std::string(one_of.tag()));
  out.push_back({.key = tag,
                 .type = "string",
                 .default_value = key.ends_with(".*") ? "" : names[one_of.index()],
                 .range = {},
                 .choices = names,
                 .unit = {},
                 .help = "which alternative",
                 .alternative = condition,
                 .required = key.ends_with(".*")});
  for (size_t i = 0; i < names.size(); ++i) {
    const ConfigPrototype other = one_of.prototype(i);
    const auto chosen = i == one_of.index() ? one_of.chosen() : nullptr;
    walk_section(chosen ? *chosen : static_cast<const SectionBinding&>(*other.binding), key,
                 condition + (condition.empty() ? "" : " and ") + tag + "=" + names[i], out);
  }
}

bool is_leaf(const ConfigBinding& binding) {
  switch (binding.kind()) {
    case ConfigBinding::Kind::kScalar:
    case ConfigBinding::Kind::kTree:
      return true;
    case ConfigBinding::Kind::kSection:
    case ConfigBinding::Kind::kOneOf:
      return false;
    case ConfigBinding::Kind::kOptional:
      return is_leaf(*static_cast<const OptionalBinding&>(binding).prototype().binding);
    case ConfigBinding::Kind::kList:
      return is_leaf(*static_cast<const ListBinding&>(binding).prototype().binding);
    case ConfigBinding::Kind::kMap:
      return is_leaf(*static_cast<const MapBinding&>(binding).prototype().binding);
  }
  return true;
}

void walk_section(const SectionBinding& section, const std::string& prefix,
                  const std::string& condition, std::vector<ConfigKey>& out) {
  const auto fields = section.fields();
  const bool names_preset = std::any_of(fields.begin(), fields.end(), [](const ConfigField& field) {
    return field.name == "preset";
  });
  if (section.has_presets() && !names_preset) {
    out.push_back({.key = join_key(prefix, "preset"),
                   .type = "string",
                   .default_value = {},
                   .range = {},
                   .choices = section.preset_names(),
                   .unit = {},
                   .help = "sets the defaults of this section",
                   .alternative = condition});
  }
  for (const ConfigField& field : fields) {
    const bool is_preset = section.has_presets() && field.name == "preset";
    const bool is_plain_section = field.binding->kind() == ConfigBinding::Kind::kSection ||
                                  field.binding->kind() == ConfigBinding::Kind::kOneOf;
    if (!is_plain_section) {
      const bool shows_default = !field.options.required;
      out.push_back({.key = join_key(prefix, field.name),
                     .type = describe_type(*field.binding, field.options),
                     .default_value = shows_default
                                          ? emit_yaml_flow(to_node(*field.binding, field.options))
                                          : "",
                     .range = describe_range(field.options),
                     .choices = is_preset ? section.preset_names() : field.options.choices,
                     .unit = field.options.unit,
                     .help = field.help,
                     .alternative = condition,
                     .required = field.options.required});
    }
    if (!is_leaf(*field.binding)) {
      const size_t first = out.size();
      walk_value(*field.binding, field.options, join_key(prefix, field.name), condition, out);
      if (field.binding->kind() == ConfigBinding::Kind::kOneOf) out[first].help = field.help;
    }
  }
}

// Leaves of a tree of values in order, lists of plain values as one.
void flatten(const ConfigNode& node, const std::string& key,
             std::vector<std::pair<std::string, std::string>>& out) {
  const bool has_maps =
      std::any_of(node.children.begin(), node.children.end(),
                  [](const ConfigNode& child) { return child.kind == ConfigNode::Kind::kMap; });
  const bool is_map = node.kind == ConfigNode::Kind::kMap && !node.keys.empty();
  if (!is_map && !has_maps) {
    out.emplace_back(key, emit_yaml_flow(node));
    return;
  }
  for (size_t i = 0; i < node.children.size(); ++i) {
    flatten(node.children[i], join_key(key, is_map ? node.keys[i] : fmt::format("{}", i)), out);
  }
}

}  // namespace

std::vector<ConfigKey> list_keys(const SectionBinding& config) {
  std::vector<ConfigKey> keys;
  walk_section(config, "", "", keys);
  return keys;
}

void read_config_text(const SectionBinding& config, std::string_view yaml,
                      const std::string& source, const std::vector<std::string>& overrides) {
  ConfigReader reader(source, config);
  ConfigNode root = parse_config_yaml(yaml, source);
  const ConfigNode written = overrides.empty() ? ConfigNode() : root;
  std::string malformed;  // overrides that could not be put into the tree
  for (const auto& text : overrides) {
    try {
      apply_override(root, text);
    } catch (const ConfigError& error) {
      malformed += std::string("\n") + error.what();
    }
  }
  if (!overrides.empty()) drop_old_keys(config, written, root);
  reader.read_root(config, root);
  try {
    reader.throw_faults();
  } catch (const ConfigError& error) {
    throw ConfigError(error.what() + malformed);
  }
  if (!malformed.empty()) throw ConfigError(malformed.substr(1));
  config.check();
}

void read_changed(const SectionBinding& base, const ConfigTree& changes, const std::string& source,
                  const SectionBinding& out) {
  ConfigNode root = to_node(base);
  if (!changes.empty()) merge_changes(base, changes.root, root);
  ConfigReader reader(source, base);
  reader.read_root(out, root);
  reader.throw_faults();
  out.check();
}

void read_config_file(const SectionBinding& config, const std::string& path,
                      const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = read_file(path, kMaxConfigBytes);
  } catch (const Error& error) {
    throw ConfigError(error.what());
  }
  read_config_text(config, text, path, overrides);
}

std::string dump_section(const SectionBinding& config) { return emit_yaml(to_node(config)); }

std::vector<ConfigDifference> diff_sections(const SectionBinding& a, const SectionBinding& b) {
  std::vector<std::pair<std::string, std::string>> left, right;
  flatten(to_node(a), "", left);
  flatten(to_node(b), "", right);
  const std::map<std::string, std::string> in_left(left.begin(), left.end());
  const std::map<std::string, std::string> in_right(right.begin(), right.end());
  std::vector<ConfigDifference> differences;
  for (const auto& [key, value] : left) {
    const auto other = in_right.find(key);
    if (other == in_right.end()) {
      differences.push_back({key, value, std::nullopt});
    } else if (other->second != value) {
      differences.push_back({key, value, other->second});
    }
  }
  for (const auto& [key, value] : right) {
    if (!in_left.count(key)) differences.push_back({key, std::nullopt, value});
  }
  return differences;
}

}  // namespace fovea::detail
