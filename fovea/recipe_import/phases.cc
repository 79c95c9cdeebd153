#include "fovea/recipe_import/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "fovea/config/node.h"
#include "fovea/core/text.h"

namespace fovea::recipe_import {
namespace {

using Nodes = std::vector<const ConfigNode*>;  // of each recipe; null: it has none

bool is_map(const ConfigNode* node) {
  return node != nullptr && node->kind == ConfigNode::Kind::kMap;
}

std::string text_of(const ConfigNode* node) { return node == nullptr ? "" : emit_yaml_flow(*node); }

ConfigNode empty_map() {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kMap;
  return node;
}

const ConfigNode* value_at(const ConfigNode& root, const char* section, const char* key) {
  const auto* node = root.find(section);
  return is_map(node) ? node->find(key) : nullptr;
}

// A section of another kind has other keys, so that it is one value.
bool are_alike(const Nodes& sections) {
  return std::all_of(sections.begin(), sections.end(), [&](const ConfigNode* section) {
    if (!is_map(section)) return false;
    for (const auto* key : {"name", "format", "preset"}) {
      if (text_of(section->find(key)) != text_of(sections.front()->find(key))) return false;
    }
    return true;
  });
}

std::vector<std::string> keys_of(const Nodes& sections) {
  std::vector<std::string> keys;
  for (const auto* section : sections) {
    for (const auto& key : section->keys) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

// Divides what the recipes say under `path` between `base` and the phases' `sets`.
void divide(const std::string& path, const Nodes& nodes, ConfigNode& base,
            std::vector<ConfigNode>& sets) {
  for (const auto& key : keys_of(nodes)) {
    const auto below = path.empty() ? key : path + "." + key;
    Nodes children;
    for (const auto* node : nodes) children.push_back(node->find(key));
    if (below == "run.dir" || below == "init") {  // of the first phase alone
      if (children.front() != nullptr) base.add(key, *children.front());
      continue;
    }
    if (are_alike(children)) {
      auto rest = empty_map();
      std::vector<ConfigNode> rests(nodes.size(), empty_map());
      divide(below, children, rest, rests);
      base.add(key, rest);
      for (size_t i = 0; i < sets.size(); ++i) {
        if (!rests[i].keys.empty()) sets[i].add(key, rests[i]);
      }
      continue;
    }
    const bool in_all = std::find(children.begin(), children.end(), nullptr) == children.end();
    const bool is_length = below == "trainer.max_steps" || below == "trainer.max_epochs";
    const bool in_base = children.front() != nullptr && (in_all || is_length);
    if (in_base) base.add(key, *children.front());
    for (size_t i = in_base ? 1 : 0; i < children.size(); ++i) {
      const bool is_other = !in_base || text_of(children[i]) != text_of(children.front());
      if (children[i] != nullptr && is_other) sets[i].add(key, *children[i]);
    }
  }
}

// How the weights of the phase before go into this one.
ConfigNode init_of(const ConfigNode& before, const ConfigNode& recipe) {
  auto init = empty_map();
  if (const auto* given = recipe.find("init"); is_map(given)) {
    for (size_t i = 0; i < given->keys.size(); ++i) {
      const auto& key = given->keys[i];
      if (key != "weights" && key != "optimizer" && key != "step")
        init.add(key, given->children[i]);
    }
  }
  const auto changes = [&](const char* key) {
    return text_of(value_at(before, "model", key)) != text_of(value_at(recipe, "model", key));
  };
  const auto put = [&](const char* key, const char* value) {
    if (init.find(key) == nullptr) apply_override(init, fmt::format("{}={}", key, value));
  };
  if (changes("name")) {
    put("part", "encoder");
  } else if (changes("num_classes") || changes("representation_size") || changes("global_pool")) {
    put("skip_head", "true");
  }
  return init;
}

// The row of the file that a phase's recipe would start from.
void tell_start(ImportRow& row, const std::string& start, const std::string& before) {
  const bool is_weights = row.target == "init.weights" || row.target.starts_with("init.weights,");
  const bool is_optimizer = row.target == "init.optimizer";
  if (row.outcome == ImportOutcome::kRefused || (!is_weights && !is_optimizer)) return;
  row.outcome = ImportOutcome::kChanged;
  row.target = is_weights ? "phases.start_from" : "";
  row.note = is_weights ? fmt::format("{}: the weights of phase {}", start, before)
                        : "a phase begins with new moments";
}

std::string start_of(const ConfigNode& recipe) {
  const auto* weights = value_at(recipe, "init", "weights");
  if (weights == nullptr) return "latest";
  return std::filesystem::path(weights->scalar).filename().string().find("best") !=
                 std::string::npos
             ? "best"
             : "latest";
}

}  // namespace

std::vector<std::string> phase_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const auto& file : files) {
    auto name = std::filesystem::path(file).stem().string();
    for (auto& c : name) {
      if (!is_letter_or_digit(c) && c != '_' && c != '-') c = '_';
    }
    if (name.empty()) name = "phase";
    const auto plain = name;
    for (int i = 2; !taken.insert(name).second; ++i) name = fmt::format("{}_{}", plain, i);
    names.push_back(name);
  }
  return names;
}

ImportedRecipe joined_as_phases(const std::vector<std::string>& names,
                                const std::vector<ImportedRecipe>& recipes) {
  std::vector<ConfigNode> roots;
  for (const auto& recipe : recipes) roots.push_back(parse_config_yaml(recipe.yaml, "recipe"));
  Nodes nodes;
  for (const auto& root : roots) nodes.push_back(&root);
  auto base = empty_map();
  std::vector<ConfigNode> sets(roots.size(), empty_map());
  divide("", nodes, base, sets);
  ImportedRecipe joined;
  ConfigNode phases;
  phases.kind = ConfigNode::Kind::kList;
  for (size_t i = 0; i < roots.size(); ++i) {
    auto phase = empty_map();
    apply_override(phase, "name=" + names[i]);
    const auto start = start_of(roots[i]);
    if (i > 0) {
      apply_override(phase, "start_from=" + start);
      const auto init = init_of(roots[i - 1], roots[i]);
      if (!init.keys.empty()) sets[i].add("init", init);
    }
    if (!sets[i].keys.empty()) phase.add("set", sets[i]);
    phases.children.push_back(phase);
    for (auto row : recipes[i].rows) {
      row.phase = names[i];
      if (i > 0) tell_start(row, start, names[i - 1]);
      joined.rows.push_back(std::move(row));
    }
  }
  base.add("phases", phases);
  joined.yaml = emit_yaml(base);
  return joined;
}

}  // namespace fovea::recipe_import
