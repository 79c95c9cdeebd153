#include "fovea/recipe_import/hydra.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/hydra_defaults.h"
#include "fovea/recipe_import/hydra_overrides.h"

namespace fovea::recipe_import {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxConfigs = 1'000;
constexpr int kMaxNesting = 32;

std::string with_dots(std::string path) {
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

std::string joined(const std::string& first, const std::string& second, const char* between) {
  if (first.empty() || second.empty()) return first + second;
  return first + between + second;
}

// A package under another one; behind _global_ it stands by itself.
std::string package_in(const std::string& parent, const std::string& package) {
  const auto full = joined(parent, package, ".");
  const std::string global = "_global_";
  const auto at = full.rfind(global);
  if (at == std::string::npos) return full;
  const auto rest = full.substr(at + global.size());
  return rest.starts_with('.') ? rest.substr(1) : rest;
}

ConfigNode map_node() {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kMap;
  return node;
}

// Maps are merged, all else is replaced.
void merge(ConfigNode& into, const ConfigNode& from) {
  if (into.kind != ConfigNode::Kind::kMap || from.kind != ConfigNode::Kind::kMap) {
    into = from;
    return;
  }
  for (size_t i = 0; i < from.keys.size(); ++i) {
    if (auto* known = into.find(from.keys[i])) {
      merge(*known, from.children[i]);
    } else {
      into.add(from.keys[i], from.children[i]);
    }
  }
}

class Composer {
 public:
  Composer(const fs::path& folder, const std::vector<std::string>& overrides) : folder_(folder) {
    root_ = map_node();
    for (const auto& text : overrides) {
      const auto change = parse_hydra_override(text);
      const auto group = change.key.substr(0, change.key.find('@'));
      const bool is_hydra =
          group == "hydra" || group.starts_with("hydra/") || group.starts_with("hydra.");
      if (is_hydra) continue;
      if (!is_folder(folder_ / group)) {
        changes_.push_back(change);
      } else if (change.action == HydraAction::kDelete) {
        deleted_.insert(change.key);
        choices_[change.key] = {};
      } else {
        choose(change);
      }
    }
  }

  ConfigNode compose(const std::string& name) && {
    visit(name, nullptr, "", 0);
    for (const auto& [key, is_used] : used_) {
      if (!is_used) {
        fail<ConfigError>("{}: no defaults list has it; +{} adds it", key, key);
      }
    }
    for (const auto& change : changes_) apply_hydra_override(change, root_);
    auto out = map_node();
    for (size_t i = 0; i < root_.keys.size(); ++i) {
      if (root_.keys[i] != "hydra") out.add(root_.keys[i], root_.children[i]);
    }
    return out;
  }

 private:
  // group=name, +group=name, group=[a,b]
  void choose(const HydraOverride& change) {
    const auto value = parse_override_value(change.value, "command line: " + change.text);
    std::vector<std::string> names;
    if (value.kind == ConfigNode::Kind::kScalar) names = {value.scalar};
    for (const auto& child : value.children) names.push_back(child.scalar);
    if (change.action != HydraAction::kAdd) {
      choices_[change.key] = names;
      used_[change.key] = false;
      return;
    }
    HydraDefault added;
    const auto at = change.key.find('@');
    added.group = change.key.substr(0, at);
    added.names = names;
    if (at != std::string::npos) added.package = change.key.substr(at + 1);
    added_.push_back(added);
  }

  std::optional<std::string> file_of(const std::string& path) const {
    for (const auto* ending : {".yaml", ".yml"}) {
      const auto file = (folder_ / (path + ending)).string();
      if (is_there(file)) return file;
    }
    return {};
  }

  // path: of the file from the folder on, without its ending. entry: what names it in `parent`;
  // null: nothing.
  void visit(const std::string& path, const HydraDefault* entry, const std::string& parent,
             int depth) {
    const auto file = file_of(path);
    if (!file) {
      if (entry != nullptr && entry->is_optional) return;
      fail<ConfigError>(
          "{}/{}.yaml: a defaults list names it, and it is not there; expected the folder of "
          "configurations whole",
          folder_.string(), path);
    }
    if (++num_configs_ > kMaxConfigs || depth > kMaxNesting) {
      fail<ConfigError>("{}: defaults lists that name each other", *file);
    }
    const auto loaded = read_hydra_file(*file);
    const auto slash = path.rfind('/');
    const auto base = slash == std::string::npos ? "" : path.substr(0, slash);
    const auto own = package_of(loaded, entry, base, parent);
    for (const auto& other : loaded.defaults) {
      if (other.is_override) override_choice(other, base, own);
    }
    for (const auto& other : loaded.defaults) {
      other.is_self ? put(loaded.content, own) : visit_entry(other, base, own, depth);
    }
    if (depth > 0) return;
    for (const auto& other : added_) visit_entry(other, base, own, depth);
  }

  // Where the file's content goes: as the entry says, else the file, else its group.
  static std::string package_of(const HydraFile& file, const HydraDefault* entry,
                                const std::string& base, const std::string& parent) {
    if (entry != nullptr && entry->package) return package_in(parent, *entry->package);
    if (file.header == "_group_") return with_dots(base);
    if (file.header) return package_in("", *file.header);
    return package_in(parent, entry != nullptr ? with_dots(entry->group) : "");
  }

  static std::string group_path(const HydraDefault& entry, const std::string& base) {
    return entry.is_absolute ? entry.group : joined(base, entry.group, "/");
  }

  // The name by which a choice is overridden: with the package where that is another one.
  static std::string choice_key(const HydraDefault& entry, const std::string& base,
                                const std::string& parent) {
    const auto group = group_path(entry, base);
    const auto package =
        package_in(parent, entry.package ? *entry.package : with_dots(entry.group));
    if (package == with_dots(group)) return group;
    return group + "@" + (package.empty() ? "_global_" : package);
  }

  // The command line and configurations further out come first.
  void override_choice(const HydraDefault& entry, const std::string& base,
                       const std::string& parent) {
    const auto key = choice_key(entry, base, parent);
    if (key.starts_with("hydra/") || choices_.contains(key)) return;
    choices_[key] = entry.names;
    used_[key] = false;
  }

  void visit_entry(const HydraDefault& entry, const std::string& base, const std::string& parent,
                   int depth) {
    const auto group = group_path(entry, base);
    if (entry.is_override || group == "hydra" || group.starts_with("hydra/")) return;
    auto names = entry.names;
    bool is_missing = entry.is_missing;
    if (!entry.group.empty()) {
      const auto key = choice_key(entry, base, parent);
      if (deleted_.contains(key)) return;
      if (const auto found = choices_.find(key); found != choices_.end()) {
        names = found->second;
        is_missing = false;
        used_[key] = true;
      }
      known_[group] = names.size() == 1 ? names[0] : "";
    }
    if (is_missing) {
      fail<ConfigError>("{}: ??? stands for a choice; give one, {}=NAME", group, group);
    }
    for (const auto& name : names) {
      visit(joined(group, with_choices(name), "/"), &entry, parent, depth + 1);
    }
  }

  // ${group} in a name is the group's choice.
  std::string with_choices(std::string name) const {
    for (const auto& [group, choice] : known_) {
      const auto written = "${" + group + "}";
      for (auto at = name.find(written); at != std::string::npos; at = name.find(written)) {
        name.replace(at, written.size(), choice);
      }
    }
    return name;
  }

  void put(const ConfigNode& content, const std::string& package) {
    ConfigNode* node = &root_;
    std::istringstream parts(package);
    for (std::string part; std::getline(parts, part, '.');) {
      auto* child = node->find(part);
      node = child != nullptr ? child : &node->add(part, map_node());
      if (node->kind != ConfigNode::Kind::kMap) *node = map_node();
    }
    merge(*node, content);
  }

  fs::path folder_;
  ConfigNode root_;
  std::vector<HydraOverride> changes_;
  std::vector<HydraDefault> added_;
  std::map<std::string, std::vector<std::string>> choices_;
  std::map<std::string, bool> used_;
  std::map<std::string, std::string> known_;
  std::set<std::string> deleted_;
  int num_configs_ = 0;
};

}  // namespace

ConfigNode compose_hydra(const std::string& file, const std::vector<std::string>& overrides) {
  const fs::path path = file;
  if (!is_there(file)) read_file(file, kMaxConfigBytes);  // says why not
  auto folder = path.parent_path();
  if (folder.empty()) folder = ".";
  auto root = Composer(folder, overrides).compose(path.stem().string());
  interpolate(root);
  return root;
}

}  // namespace fovea::recipe_import
