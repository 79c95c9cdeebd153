// Files of other systems as flat settings.
#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "fovea/config/foreign_yaml.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/command_line.h"
#include "fovea/recipe_import/gin_files.h"
#include "fovea/recipe_import/hydra.h"
#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/phases.h"
#include "fovea/recipe_import/timm.h"

namespace fovea::recipe_import {
namespace {

namespace fs = std::filesystem;

void flatten(const ConfigNode& node, const std::string& prefix,
             const std::function<bool(const std::string&)>& is_value, ConfigNode& flat) {
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const auto key = prefix.empty() ? node.keys[i] : prefix + "." + node.keys[i];
    const auto& child = node.children[i];
    if (child.kind == ConfigNode::Kind::kMap && !is_value(key)) {
      flatten(child, key, is_value, flat);
    } else {
      flat.add(key, child);
    }
  }
}

bool is_dict_of_ucf(const std::string& key) {
  return key.starts_with("data.dict_") || key.starts_with("data.num_channels_") ||
         key.starts_with("dataset_options.") || key == "load_balancing.batches_per_rank_epoch";
}

bool is_yaml_name(const std::string& file) {
  const auto ending = fs::path(file).extension();
  return ending == ".yaml" || ending == ".yml" || ending == ".json";
}

// A shell's or Slurm's.
bool is_script(const std::string& file, const std::string& text) {
  const auto ending = fs::path(file).extension();
  return text.starts_with("#!") || ending == ".sh" || ending == ".sub" || ending == ".sbatch";
}

ConfigNode read_settings(const std::string& file, const std::string& text,
                         const ImportOptions& options) {
  const auto& system = options.system;
  if (system == "rosetta") return read_gin_file(file, text, options.search_paths);
  return flat_settings(parse_foreign_yaml(text, file), [&](const std::string& key) {
    return system == "ucf" ? is_dict_of_ucf(key) : system == "timm" || system == "jabas";
  });
}

}  // namespace

ConfigNode flat_settings(const ConfigNode& root,
                         const std::function<bool(const std::string&)>& is_value) {
  ConfigNode flat;
  flat.kind = ConfigNode::Kind::kMap;
  flatten(root, "", is_value, flat);
  return flat;
}

std::vector<std::string> import_systems() { return {"ucf", "bionemo", "rosetta", "timm", "jabas"}; }

namespace {

using Import = void (*)(Importer&);

Import import_of(const std::string& system) {
  const std::map<std::string, Import> systems = {{"ucf", import_ucf},
                                                 {"bionemo", import_bionemo},
                                                 {"rosetta", import_rosetta},
                                                 {"timm", import_timm},
                                                 {"jabas", import_jabas}};
  const auto chosen = systems.find(system);
  if (chosen == systems.end()) {
    fail<ConfigError>("no system is called '{}'; expected ucf, bionemo, rosetta, timm or jabas",
                      system);
  }
  return chosen->second;
}

// Of a file, or of a script's command for each turn of its loops.
std::vector<TrainingRun> runs_of(const std::string& file, const ImportOptions& options,
                                 std::string& remark) {
  const auto& system = options.system;
  const auto text = read_file(file, kMaxConfigBytes);
  if (system == "bionemo") {
    return {{"",
             {is_yaml_name(file) ? hydra_settings(file, options.overrides)
                                 : hydra_command(text, file, options.overrides)}}};
  }
  if (!is_yaml_name(file) && (system == "timm" || system == "jabas")) {
    return training_runs(
        text, file,
        [&](const ShellCommand& command, const ShellScript& script) {
          auto settings = command_settings(command, script, file);
          return system == "jabas" ? with_jabas_file(std::move(settings), file) : settings;
        },
        remark);
  }
  if (system == "rosetta" && is_script(file, text)) {
    return training_runs(
        text, file,
        [&](const ShellCommand& command, const ShellScript&) {
          return gin_command(command, file, options.search_paths);
        },
        remark);
  }
  return {{"", {{read_settings(file, text, options)}}}};
}

bool has_kwargs(const std::string& system) { return system == "timm" || system == "jabas"; }

// Turns of a loop that write to one folder would go on with each other.
void give_folders(std::vector<ImportedRecipe>& recipes) {
  std::vector<ConfigNode> roots;
  std::set<std::string> folders;
  for (const auto& recipe : recipes) {
    roots.push_back(parse_config_yaml(recipe.yaml, "recipe"));
    folders.insert(roots.back().find("run")->find("dir")->scalar);
  }
  if (folders.size() == recipes.size()) return;
  for (size_t i = 0; i < recipes.size(); ++i) {
    auto folder = *roots[i].find("run")->find("dir");
    folder.scalar += "_" + recipes[i].turn;
    apply_override(roots[i], "run.dir=" + emit_yaml_flow(folder));
    recipes[i].yaml = emit_yaml(roots[i]);
  }
}

}  // namespace

std::vector<ImportedRecipe> import_recipes(const std::vector<std::string>& files,
                                           const ImportOptions& options) {
  const auto import = import_of(options.system);
  if (!options.overrides.empty() && options.system != "bionemo") {
    fail<ConfigError>(
        "{}: changes on the command line are Hydra's, of bionemo alone; change the "
        "recipe by `fovea train recipe.yaml key=value`",
        options.overrides.front());
  }
  std::vector<std::string> names;
  std::vector<ImportedRecipe> recipes;
  std::string remark;
  for (const auto& file : files) {
    for (auto& run : runs_of(file, options, remark)) {
      if (!run.turn.empty() && files.size() > 1) {
        fail<ConfigError>("{}: it has a loop, whose turns are recipes of their own; give it alone",
                          file);
      }
      for (auto& settings : run.phases) {
        Importer importer(
            has_kwargs(options.system) ? with_kwargs(std::move(settings)) : std::move(settings),
            options);
        import(importer);
        if (!importer.knows_any()) {
          fail<ConfigError>(
              "{}: it has no key of {}'s; expected its configuration. No recipe was written", file,
              options.system);
        }
        recipes.push_back(std::move(importer).finish());
        recipes.back().turn = run.turn;
        names.push_back(file);
      }
    }
  }
  std::vector<ImportedRecipe> joined;
  for (size_t first = 0, last = 0; first < recipes.size(); first = last) {
    while (last < recipes.size() && recipes[last].turn == recipes[first].turn) ++last;
    const auto from = static_cast<std::ptrdiff_t>(first), to = static_cast<std::ptrdiff_t>(last);
    auto recipe = last - first == 1
                      ? recipes[first]
                      : joined_as_phases(phase_names({names.begin() + from, names.begin() + to}),
                                         {recipes.begin() + from, recipes.begin() + to});
    recipe.turn = recipes[first].turn;
    if (!remark.empty()) recipe.remark += (recipe.remark.empty() ? "" : "\n") + remark;
    joined.push_back(std::move(recipe));
  }
  give_folders(joined);
  return joined;
}

ImportedRecipe import_recipe(const std::vector<std::string>& files, const ImportOptions& options) {
  auto recipes = import_recipes(files, options);
  if (recipes.size() != 1) {
    fail<ConfigError>("{}: its loops make {} recipes; expected one", files.front(), recipes.size());
  }
  return std::move(recipes.front());
}

ImportedRecipe import_recipe(const std::string& file, const ImportOptions& options) {
  return import_recipe(std::vector<std::string>{file}, options);
}

namespace {

// A table of the rows of one phase.
std::string table_of(const std::vector<ImportRow>& rows, const std::string& phase) {
  std::string table;
  const std::pair<ImportOutcome, const char*> parts[] = {{ImportOutcome::kMapped, "mapped"},
                                                         {ImportOutcome::kChanged, "changed"},
                                                         {ImportOutcome::kRefused, "refused"}};
  for (const auto& [outcome, title] : parts) {
    std::string lines;
    size_t count = 0;
    for (const auto& row : rows) {
      if (row.outcome != outcome || row.phase != phase) continue;
      count += 1;
      lines += fmt::format("  {} = {}{}{}{}\n", row.key, row.value,
                           row.target.empty() ? "" : " -> " + row.target,
                           row.note.empty() ? "" : ": ", row.note);
    }
    if (count > 0) table += fmt::format("{} ({})\n{}", title, count, lines);
  }
  return table;
}

}  // namespace

std::string import_table(const std::vector<ImportRow>& rows) {
  std::string table, phase;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && rows[i].phase == phase) continue;
    phase = rows[i].phase;
    if (!phase.empty()) table += fmt::format("phase {}\n", phase);
    table += table_of(rows, phase);
  }
  return table;
}

}  // namespace fovea::recipe_import
