// Files of other systems as flat settings.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/gin.h"
#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/phases.h"

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

// Words as a shell takes them apart: quotes, backslashes at ends of lines, comments.
std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool is_open = false;
  const auto close = [&] {
    if (is_open) words.push_back(word);
    word.clear();
    is_open = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && i + 1 < text.size()) {
      i += 1;
      if (text[i] == '\n') continue;
      word += text[i];
      is_open = true;
    } else if (c == '\'' || c == '"') {
      const auto end = text.find(c, i + 1);
      word += text.substr(i + 1, end == std::string::npos ? end : end - i - 1);
      is_open = true;
      i = std::min(end, text.size() - 1);
    } else if (c == '#' && !is_open) {
      i = std::min(text.find('\n', i), text.size() - 1);
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      close();
    } else {
      word += c;
      is_open = true;
    }
  }
  close();
  return words;
}

bool is_flag(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && (word[1] == '-' || std::isalpha(word[1]));
}

std::string flag_name(std::string_view word) {
  word.remove_prefix(word.starts_with("--") ? 2 : 1);
  std::string name(word);
  for (auto& c : name) c = c == '-' ? '_' : c;
  return name;
}

ConfigNode scalar_node(const std::string& text, const ConfigOrigin& origin) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kScalar;
  node.scalar = text;
  node.origin = origin;
  return node;
}

ConfigNode value_node(const std::vector<std::string>& words, const ConfigOrigin& origin) {
  if (words.empty()) return scalar_node("true", origin);
  if (words.size() == 1) return scalar_node(words.front(), origin);
  ConfigNode list;
  list.kind = ConfigNode::Kind::kList;
  list.origin = origin;
  for (const auto& word : words) list.children.push_back(scalar_node(word, origin));
  return list;
}

// What Hydra writes as ${dataset.num_classes}.
void interpolate(ConfigNode& flat) {
  for (auto& child : flat.children) {
    const auto& text = child.scalar;
    if (!text.starts_with("${") || !text.ends_with("}")) continue;
    if (const auto* value = flat.find(text.substr(2, text.size() - 3))) {
      const auto copy = *value;
      child = copy;
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

// Commands of a script that train; one text where there are fewer than two of them.
std::vector<std::string> parts_of(const std::string& file, const std::string& text,
                                  const std::string& system) {
  std::vector<std::string> commands;
  const bool is_script = !is_yaml_name(file) && (system == "timm" || system == "jabas");
  std::string command;
  const auto close = [&] {
    const auto words = shell_words(command);
    const bool trains = std::any_of(words.begin(), words.end(), [](const std::string& word) {
      const auto name = fs::path(word).filename().string();
      return name == "train.py" || name == "main.py";
    });
    if (trains) commands.push_back(command);
    command.clear();
  };
  char quote = 0;
  for (size_t i = 0; is_script && i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && c == '#' &&
        (i == 0 || std::isspace(static_cast<unsigned char>(text[i - 1])))) {
      i = std::min(text.find('\n', i), text.size()) - 1;
      continue;
    }
    if (c == '\\' && i + 1 < text.size()) {
      command += c;
      command += text[++i];
      continue;
    }
    if (quote != 0 ? c == quote : c == '\'' || c == '"') quote = quote != 0 ? 0 : c;
    if (quote == 0 && (c == '\n' || c == ';' || c == '&' || c == '|')) {
      close();
    } else {
      command += c;
    }
  }
  close();
  return commands.size() < 2 ? std::vector<std::string>{text} : commands;
}

ConfigNode read_settings(const std::string& file, const std::string& text,
                         const std::string& system) {
  if (system == "rosetta") {
    const auto folder = fs::path(file).parent_path();
    return parse_gin(text, file, [&](const std::string& name) {
      // Upstream's names start at its repository; the files lie side by side.
      return read_file((folder / fs::path(name).filename()).string(), kMaxConfigBytes);
    });
  }
  if (!is_yaml_name(file) && (system == "timm" || system == "jabas")) {
    return command_line_settings(text, file);
  }
  auto flat = flat_settings(parse_config_yaml(text, file), [&](const std::string& key) {
    return system == "ucf" ? is_dict_of_ucf(key) : system == "timm" || system == "jabas";
  });
  interpolate(flat);
  return flat;
}

}  // namespace

ConfigNode flat_settings(const ConfigNode& root,
                         const std::function<bool(const std::string&)>& is_value) {
  ConfigNode flat;
  flat.kind = ConfigNode::Kind::kMap;
  flatten(root, "", is_value, flat);
  return flat;
}

ConfigNode command_line_settings(const std::string& text, const std::string& source) {
  const ConfigOrigin origin{std::make_shared<const std::string>(source), 0};
  const auto words = shell_words(text);
  const auto script = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.ends_with(".py"); });
  ConfigNode flat;
  flat.kind = ConfigNode::Kind::kMap;
  const auto put = [&](const std::string& name, const std::vector<std::string>& values) {
    if (auto* known = flat.find(name)) {
      *known = value_node(values, origin);
    } else {
      flat.add(name, value_node(values, origin));
    }
  };
  const auto read = [&](auto first, auto last, const std::string& prefix, bool keeps_positional) {
    while (first != last) {
      if (!is_flag(*first)) {
        if (keeps_positional) put("positional", {*first});
        ++first;
        continue;
      }
      auto name = flag_name(*first++);
      std::vector<std::string> values;
      if (const auto equals = name.find('='); equals != std::string::npos) {
        values.push_back((first - 1)->substr((first - 1)->find('=') + 1));
        name = name.substr(0, equals);
      }
      while (first != last && values.size() < 16 && !is_flag(*first)) values.push_back(*first++);
      put(prefix + name, values);
    }
  };
  if (script == words.end()) {
    read(words.begin(), words.end(), "", true);
  } else {
    read(words.begin(), script, "launch.", false);
    read(script + 1, words.end(), "", true);
  }
  if (flat.keys.empty()) fail<ConfigError>("{}: found no flags (--name value)", source);
  return flat;
}

std::vector<std::string> import_systems() { return {"ucf", "bionemo", "rosetta", "timm", "jabas"}; }

ImportedRecipe import_recipe(const std::vector<std::string>& files, const ImportOptions& options) {
  const std::map<std::string, void (*)(Importer&)> systems = {{"ucf", import_ucf},
                                                              {"bionemo", import_bionemo},
                                                              {"rosetta", import_rosetta},
                                                              {"timm", import_timm},
                                                              {"jabas", import_jabas}};
  const auto chosen = systems.find(options.system);
  if (chosen == systems.end()) {
    fail<ConfigError>("no system is called '{}'; expected ucf, bionemo, rosetta, timm or jabas",
                      options.system);
  }
  std::vector<std::string> names;
  std::vector<ImportedRecipe> recipes;
  for (const auto& file : files) {
    const auto text = read_file(file, kMaxConfigBytes);
    for (const auto& part : parts_of(file, text, options.system)) {
      Importer importer(read_settings(file, part, options.system), options);
      chosen->second(importer);
      recipes.push_back(std::move(importer).finish());
      names.push_back(file);
    }
  }
  if (recipes.size() == 1) return std::move(recipes.front());
  return joined_as_phases(phase_names(names), recipes);
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
