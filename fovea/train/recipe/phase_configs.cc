#include "fovea/train/recipe/phase_configs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "fovea/core/error.h"
#include "fovea/train/recipe/init_weights.h"
#include "fovea/train/recipe/run_folder.h"

namespace fovea::train {
namespace {

bool is_name(const std::string& name) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), is_allowed);
}

// The value at `section.key`; null where the tree has none.
const ConfigNode* find_key(const ConfigTree& tree, const char* section, const char* key) {
  const ConfigNode* node = tree.root.find(section);
  return node ? node->find(key) : nullptr;
}

void validate_name(const TrainConfig& config, size_t index, ConfigIssues& issues) {
  const auto& name = config.phases[index].name;
  const auto key = fmt::format("phases.{}.name", index);
  if (!is_name(name)) {
    issues.add(key, fmt::format("found '{}', expected up to 64 letters, digits, _ and -",
                                printable_start(name)));
  }
  for (size_t before = 0; before < index; ++before) {
    if (config.phases[before].name != name) continue;
    issues.add(key, {fmt::format("phases.{}.name", before)},
               fmt::format("found '{}' a second time; give each phase a name of its own", name));
    return;
  }
}

void validate_start(const TrainConfig& config, size_t index, ConfigIssues& issues) {
  const auto& phase = config.phases[index];
  const auto key = fmt::format("phases.{}.start_from", index);
  const bool names_file = find_key(phase.set, "init", "weights") != nullptr;
  if (index == 0) {
    if (phase.start_from == "best") {
      issues.add(key, "found best, but there is no phase before the first; leave it out");
    }
  } else if (phase.start_from == "none") {
    if (names_file || !named_init_weights(config).empty()) return;
    issues.add(key, {"init.weights"},
               "found none, but init.weights names no file to start from; set init: {weights: ...} "
               "in the phase, or start_from: latest");
  } else if (names_file) {
    issues.add(fmt::format("phases.{}.set.init.weights", index), {key},
               fmt::format("found a file, but start_from is {}; set start_from: none, or leave the "
                           "file out",
                           phase.start_from));
  }
}

Phase resolve(const TrainConfig& recipe, size_t index) {
  const auto& given = recipe.phases[index];
  Phase phase{
      .name = given.name, .start_from = index == 0 ? "none" : given.start_from, .config = recipe};
  phase.config.phases.clear();
  const bool follows = phase.start_from != "none";
  if (follows) phase.config.init = {};
  phase.config = changed_config(phase.config, given.set, fmt::format("phase {}", given.name));
  phase.config.run.dir = phase_folder(recipe.run.dir, index, given.name);
  if (follows) {
    const auto before = phase_folder(recipe.run.dir, index - 1, recipe.phases[index - 1].name);
    phase.config.init.weights = before + "/weights.safetensors";
  }
  return phase;
}

}  // namespace

void validate_phases(const TrainConfig& config, ConfigIssues& issues) {
  for (size_t i = 0; i < config.phases.size(); ++i) {
    validate_name(config, i, issues);
    validate_start(config, i, issues);
    const auto& set = config.phases[i].set;
    if (find_key(set, "run", "dir")) {
      issues.add(fmt::format("phases.{}.set.run.dir", i),
                 "a phase has a folder of its own below run.dir of the recipe; leave it out");
    }
    if (set.root.find("launch")) {
      issues.add(fmt::format("phases.{}.set.launch", i),
                 "all phases run in the same processes; set launch in the recipe itself");
    }
    if (set.root.find("phases")) {
      issues.add(fmt::format("phases.{}.set.phases", i), "a phase has no phases; leave it out");
    }
  }
}

std::vector<Phase> resolve_phases(const TrainConfig& config) {
  std::vector<Phase> phases;
  std::string faults;
  for (size_t i = 0; i < config.phases.size(); ++i) {
    try {
      phases.push_back(resolve(config, i));
      const auto& phase = phases.back();
      if (i > 0 && phases.size() == i + 1 && phase.start_from == "best" &&
          !phases[i - 1].config.data.val) {
        fail<ConfigError>(
            "phase {}: start_from: best, but phase {} has no data.val, and so no best evaluation; "
            "give it one, or set start_from: latest",
            phase.name, phases[i - 1].name);
      }
    } catch (const ConfigError& error) {
      faults += std::string(faults.empty() ? "" : "\n") + error.what();
    }
  }
  if (!faults.empty()) throw ConfigError(faults);
  return phases;
}

std::string phase_folder(const std::string& run_dir, size_t index, const std::string& name) {
  return fmt::format("{}/{}_{}", run_dir, index + 1, name);
}

std::vector<std::string> begun_phase_folders(const std::string& run_dir) {
  std::vector<std::string> folders;
  const auto phases = load_run_config(run_dir).phases;
  for (size_t i = 0; i < phases.size(); ++i) {
    auto folder = phase_folder(run_dir, i, phases[i].name);
    if (is_run_folder(folder)) folders.push_back(std::move(folder));
  }
  return folders;
}

}  // namespace fovea::train
