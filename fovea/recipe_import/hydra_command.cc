// Hydra's configurations as settings, from a file or from a command line.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/recipe_import/command_line.h"
#include "fovea/recipe_import/hydra.h"
#include "fovea/recipe_import/hydra_overrides.h"

namespace fovea::recipe_import {
namespace {

namespace fs = std::filesystem;

// What in a value only a run knows; "": nothing.
std::string unknown_in(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::kScalar) {
    if (node.scalar == "???") return node.scalar;
    const auto open = node.scalar.find("${");
    return open == std::string::npos
               ? ""
               : node.scalar.substr(open, node.scalar.find('}', open) + 1 - open);
  }
  for (const auto& child : node.children) {
    if (auto found = unknown_in(child); !found.empty()) return found;
  }
  return "";
}

// A flag's value: behind `=`, or the next word.
std::string value_of_flag(const ShellWords& words, size_t& at) {
  const auto& text = words[at].text;
  if (const auto equals = text.find('='); equals != std::string::npos) {
    return text.substr(equals + 1);
  }
  return at + 1 < words.size() ? words[++at].text : "";
}

struct HydraCommand {
  std::string name = "vit_base_patch16_224";  // the program's own
  std::string folder = "config";
  std::vector<std::string> overrides = {};
  std::vector<UnknownSetting> unknown = {};
};

HydraCommand read_command(const ShellWords& words, size_t at) {
  HydraCommand command;
  for (; at < words.size(); ++at) {
    const auto& [text, unknown] = words[at];
    const auto flag = text.substr(0, text.find('='));
    if (flag == "--config-name" || flag == "-cn") {
      command.name = value_of_flag(words, at);
    } else if (flag == "--config-path" || flag == "-cp" || flag == "--config-dir" ||
               flag == "-cd") {
      command.folder = value_of_flag(words, at);
    } else if (text.starts_with('-')) {
      fail<ConfigError>(
          "{}: no flag of a Hydra program that is known here; expected --config-name, "
          "--config-path and key=value",
          text);
    } else if (!unknown.empty()) {
      const auto change = parse_hydra_override(text);
      command.unknown.push_back({change.key, change.value, unknown});
    } else {
      command.overrides.push_back(text);
    }
  }
  if (command.name.ends_with(".yaml")) command.name.resize(command.name.size() - 5);
  return command;
}

ShellWords::const_iterator program_of(const ShellCommand& command) {
  return std::find_if(command.words.begin(), command.words.end(),
                      [](const auto& word) { return word.text.ends_with(".py"); });
}

// Flags of what starts the program.
void add_launcher(const ShellCommand& launcher, const std::string& source, Settings& settings) {
  if (std::none_of(launcher.words.begin(), launcher.words.end(), is_flag)) return;
  auto found = command_settings(launcher, {}, source);
  for (size_t i = 0; i < found.values.keys.size(); ++i) {
    settings.values.add(found.values.keys[i], found.values.children[i]);
  }
  std::move(found.unknown.begin(), found.unknown.end(), std::back_inserter(settings.unknown));
}

}  // namespace

Settings hydra_settings(const std::string& file, const std::vector<std::string>& overrides) {
  const auto flat =
      flat_settings(compose_hydra(file, overrides), [](const std::string&) { return false; });
  Settings settings;
  settings.values.kind = ConfigNode::Kind::kMap;
  for (size_t i = 0; i < flat.keys.size(); ++i) {
    if (auto unknown = unknown_in(flat.children[i]); !unknown.empty()) {
      settings.unknown.push_back({flat.keys[i], emit_yaml_flow(flat.children[i]), unknown});
    } else {
      settings.values.add(flat.keys[i], flat.children[i]);
    }
  }
  return settings;
}

Settings hydra_command(const std::string& text, const std::string& source,
                       const std::vector<std::string>& overrides) {
  auto commands = run_shell(text, source).commands;
  std::erase_if(commands,
                [](const auto& command) { return program_of(command) == command.words.end(); });
  check_one_branch(commands, source);
  for (const auto& shell : commands) {
    const auto script = program_of(shell);
    auto command = read_command(shell.words, static_cast<size_t>(script - shell.words.begin()) + 1);
    command.overrides.insert(command.overrides.end(), overrides.begin(), overrides.end());
    const auto beside = fs::path(source).parent_path();
    for (const auto& folder : {beside / command.folder, beside}) {
      const auto file = (folder / (command.name + ".yaml")).string();
      if (!is_there(file)) continue;
      auto settings = hydra_settings(file, command.overrides);
      std::move(command.unknown.begin(), command.unknown.end(),
                std::back_inserter(settings.unknown));
      add_launcher({{shell.words.begin(), script + 1}}, source, settings);
      return settings;
    }
    fail<ConfigError>(
        "{}: {}.yaml is neither in {} nor beside it; expected the program's folder of "
        "configurations",
        source, command.name, (beside / command.folder).string());
  }
  fail<ConfigError>("{}: found no command with a program (train.py); expected one, or a YAML file",
                    source);
}

}  // namespace fovea::recipe_import
