#include "fovea/recipe_import/hydra_defaults.h"

#include <map>
#include <sstream>

#include "fovea/config/foreign_yaml.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"

namespace fovea::recipe_import {
namespace {

// `# @package name` at the head of a file.
std::optional<std::string> package_header(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && (line.empty() || line[0] == '#');) {
    const auto at = line.find("@package");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + 8));
    std::string name;
    words >> name;
    return name;
  }
  return {};
}

std::string text_of(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::kScalar ? node.scalar : "";
}

// "optional /db@backup" without its words.
HydraDefault entry_of_key(std::string key) {
  HydraDefault entry;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (const auto& [word, flag] : std::map<std::string, bool*>{
             {"optional ", &entry.is_optional}, {"override ", &entry.is_override}}) {
      if (!key.starts_with(word)) continue;
      *flag = goes_on = true;
      key = key.substr(key.find_first_not_of(' ', word.size()));
    }
  }
  if (const auto at = key.find('@'); at != std::string::npos) {
    entry.package = key.substr(at + 1);
    if (*entry.package == "_here_") entry.package = "";
    key = key.substr(0, at);
  }
  entry.is_absolute = key.starts_with('/');
  entry.group = entry.is_absolute ? key.substr(1) : key;
  return entry;
}

HydraDefault entry_of(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::kScalar) {
    auto entry = entry_of_key(node.scalar);
    entry.is_self = entry.group == "_self_";
    const auto slash = entry.group.rfind('/');
    entry.names = {slash == std::string::npos ? entry.group : entry.group.substr(slash + 1)};
    entry.group = slash == std::string::npos ? "" : entry.group.substr(0, slash);
    return entry;
  }
  if (node.kind != ConfigNode::Kind::kMap || node.keys.size() != 1) {
    fail<ConfigError>("{}: found {} in a defaults list; expected `name` or `group: name`",
                      node.origin.text(), describe_node(node));
  }
  auto entry = entry_of_key(node.keys[0]);
  const auto& value = node.children[0];
  if (value.kind == ConfigNode::Kind::kScalar) entry.names = {value.scalar};
  for (const auto& child : value.children) entry.names.push_back(text_of(child));
  entry.is_missing = text_of(value) == "???";
  return entry;
}

}  // namespace

HydraFile read_hydra_file(const std::string& file) {
  HydraFile loaded;
  const auto text = read_file(file, kMaxConfigBytes);
  loaded.header = package_header(text);
  const auto tree = parse_foreign_yaml(text, file);
  loaded.content.kind = ConfigNode::Kind::kMap;
  bool has_self = false, has_other = false;
  for (size_t i = 0; i < tree.keys.size(); ++i) {
    if (tree.keys[i] != "defaults" || tree.children[i].kind != ConfigNode::Kind::kList) {
      loaded.content.add(tree.keys[i], tree.children[i]);
      continue;
    }
    for (const auto& node : tree.children[i].children) {
      loaded.defaults.push_back(entry_of(node));
      has_self = has_self || loaded.defaults.back().is_self;
      has_other = has_other || !loaded.defaults.back().is_override;
    }
  }
  if ((!has_self && has_other) || loaded.defaults.empty()) {
    HydraDefault self;
    self.is_self = true;
    loaded.defaults.push_back(self);
  } else if (!has_self) {
    HydraDefault self;
    self.is_self = true;
    loaded.defaults.insert(loaded.defaults.begin(), self);
  }
  return loaded;
}

}  // namespace fovea::recipe_import
