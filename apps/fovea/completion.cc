#include "apps/fovea/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <vector>

#include "apps/fovea/overrides.h"
#include "apps/fovea/usage.h"
#include "fovea/config/config.h"
#include "fovea/models/registry.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {
namespace {

// What can stand behind a command.
struct Words {
  std::string path;  // "fovea data pack"
  std::vector<const CLI::App*> commands;
  std::vector<const CLI::Option*> options;
  bool takes_models = false, takes_changes = false;
};

bool names_models(const CLI::Option& option) {
  const auto type = option.get_type_name();
  const bool is_of_model = type.find("MODEL") != type.npos || type.find("NAME|") != type.npos;
  return is_of_model || option.check_lname("model");
}

Words words_of(const CLI::App& command) {
  Words words{.path = full_name(command), .commands = command.get_subcommands({}), .options = {}};
  for (const auto* option : command.get_options()) {
    if (!option->get_positional()) {
      words.options.push_back(option);
    } else {
      words.takes_models = words.takes_models || names_models(*option);
      words.takes_changes = words.takes_changes || option->get_type_name() == kOverrideType;
    }
  }
  return words;
}

std::vector<Words> all_words(const CLI::App& program) {
  std::vector<Words> all;
  for (const auto* command : all_commands(program)) all.push_back(words_of(*command));
  return all;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> names_of(const std::vector<const CLI::App*>& commands) {
  std::vector<std::string> names;
  for (const auto* command : commands) names.push_back(command->get_name());
  return names;
}

// What an option takes, where it is one of some words; else empty.
std::vector<std::string> values_of(const CLI::Option& option) {
  if (auto choices = option_choices(option); !choices.empty()) return choices;
  return names_models(option) ? models::list_models() : std::vector<std::string>();
}

// Keys of a recipe without those below lists and names, which have no place of their own.
std::vector<std::string> keys_of_recipe() {
  std::set<std::string> keys;
  for (const auto& key : config_keys<train::TrainConfig>()) {
    if (key.key.find('*') == key.key.npos) keys.insert(key.key);
  }
  return {keys.begin(), keys.end()};
}

std::string in_quotes(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != text.npos; at += 4)
    text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

// The commands within others, as shell patterns: "fovea data"|"fovea data pack".
std::string patterns_of(const std::vector<Words>& all) {
  std::vector<std::string> paths;
  for (const auto& words : all) {
    if (words.path != "fovea") paths.push_back(in_quotes(words.path));
  }
  return fmt::format("{}", fmt::join(paths, "|"));
}

// The part of a `case` that bash and zsh share: what follows an option with choices.
std::string value_cases(const std::vector<Words>& all, const std::string& reply) {
  std::string text;
  for (const auto& words : all) {
    for (const auto* option : words.options) {
      const auto values = values_of(*option);
      if (values.empty() && option->get_items_expected_max() == 0) continue;  // a flag
      std::vector<std::string> patterns;
      for (const auto& name : names_of(*option))
        patterns.push_back(in_quotes(words.path + " " + name));
      const auto what = names_models(*option) ? std::string("$models")
                                              : fmt::format("{}", fmt::join(values, " "));
      text += fmt::format("    {}) {} ;;\n", fmt::join(patterns, "|"),
                          fmt::format(fmt::runtime(reply), what));
    }
  }
  return text;
}

std::string bash_words(const Words& words) {
  std::vector<std::string> options;
  for (const auto* option : words.options) {
    for (auto& name : names_of(*option)) options.push_back(std::move(name));
  }
  return fmt::format("    {}) commands={}; options={}; others=\"{}{}\" ;;\n", in_quotes(words.path),
                     in_quotes(fmt::format("{}", fmt::join(names_of(words.commands), " "))),
                     in_quotes(fmt::format("{}", fmt::join(options, " "))),
                     words.takes_models ? "$models " : "", words.takes_changes ? "$keys" : "");
}

}  // namespace

std::string bash_completion(Command app) {
  const auto all = all_words(app.parser());
  std::string cases;
  for (const auto& words : all) cases += bash_words(words);
  return fmt::format(
      R"(# Completion of fovea for bash, made by `fovea completion bash`.
_fovea() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
  local at=fovea commands options others i
  local models={models}
  local keys={keys}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at ${{COMP_WORDS[i]}}" in {patterns}) at="$at ${{COMP_WORDS[i]}}" ;; esac
  done
  COMPREPLY=()
  case "$at $prev" in
{values}  esac
  case "$at" in
{cases}  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n $commands ]]; then
    COMPREPLY=($(compgen -W "$commands" -- "$cur"))
  else
    local IFS=$'\n'
    COMPREPLY=($(compgen -f -- "$cur"))
    IFS=$' \t\n'
    COMPREPLY+=($(compgen -W "$others" -- "$cur"))
    compopt -o filenames 2>/dev/null
    [[ ${{#COMPREPLY[@]}} == 1 && " $keys " == *" ${{COMPREPLY[0]}} "* ]] && compopt -o nospace 2>/dev/null
  fi
  return 0
}}
complete -o default -F _fovea fovea
)",
      fmt::arg("models", in_quotes(fmt::format("{}", fmt::join(models::list_models(), " ")))),
      fmt::arg("keys", in_quotes(fmt::format("{}", fmt::join(keys_of_recipe(), " ")))),
      fmt::arg("patterns", patterns_of(all)),
      fmt::arg("values",
               value_cases(all, "COMPREPLY=($(compgen -W \"{}\" -- \"$cur\")); return 0")),
      fmt::arg("cases", cases));
}

namespace {

// "name:help" for _describe, which wants colons escaped.
std::string described(const std::string& name, std::string help) {
  for (size_t at = 0; (at = help.find(':', at)) != help.npos; at += 2) help.insert(at, "\\");
  return in_quotes(name + ":" + help);
}

std::string zsh_words(const Words& words) {
  std::vector<std::string> commands, options;
  for (const auto* command : words.commands) {
    commands.push_back(described(command->get_name(), command->get_description()));
  }
  for (const auto* option : words.options) {
    for (const auto& name : names_of(*option)) {
      options.push_back(described(name, option->get_description()));
    }
  }
  return fmt::format("    {}) commands=({}); options=({}); others=({}{}) ;;\n",
                     in_quotes(words.path), fmt::join(commands, " "), fmt::join(options, " "),
                     words.takes_models ? "$=models " : "", words.takes_changes ? "$=keys" : "");
}

}  // namespace

std::string zsh_completion(Command app) {
  const auto all = all_words(app.parser());
  std::string cases;
  for (const auto& words : all) cases += zsh_words(words);
  return fmt::format(
      R"(#compdef fovea
# Completion of fovea for zsh, made by `fovea completion zsh`.
_fovea() {{
  local at=fovea i
  local -a commands options others
  local models={models}
  local keys={keys}
  for ((i = 2; i < CURRENT; i++)); do
    case "$at ${{words[i]}}" in ({patterns}) at="$at ${{words[i]}}" ;; esac
  done
  case "$at ${{words[CURRENT-1]}}" in
{values}  esac
  case "$at" in
{cases}  esac
  if [[ $PREFIX == -* ]]; then
    _describe -o option options
  elif (( ${{#commands}} )); then
    _describe command commands
  else
    compadd -S '' -- ${{others}}
    _files
  fi
}}
if [[ $funcstack[1] == _fovea ]]; then _fovea "$@"; else compdef _fovea fovea; fi
)",
      fmt::arg("models", in_quotes(fmt::format("{}", fmt::join(models::list_models(), " ")))),
      fmt::arg("keys", in_quotes(fmt::format("{}", fmt::join(keys_of_recipe(), " ")))),
      fmt::arg("patterns", patterns_of(all)),
      fmt::arg("values", value_cases(all, "compadd -- $=${{:-{}}} || _files; return")),
      fmt::arg("cases", cases));
}

std::string fish_completion(Command app) {
  const auto all = all_words(app.parser());
  std::vector<std::string> paths;
  for (const auto& words : all) paths.push_back(in_quotes(words.path));
  auto text = fmt::format(
      R"(# Completion of fovea for fish, made by `fovea completion fish`.
set -g __fovea_commands {}
function __fovea_at
  set -l at fovea
  for word in (commandline -opc)[2..-1]
    contains -- "$at $word" $__fovea_commands; and set at "$at $word"
  end
  test "$at" = "$argv[1]"
end
set -g __fovea_models {}
set -g __fovea_keys {}=
)",
      fmt::join(paths, " "), fmt::join(models::list_models(), " "),
      fmt::join(keys_of_recipe(), "= "));
  for (const auto& words : all) {
    const auto here = fmt::format("complete -c fovea -n '__fovea_at \"{}\"'", words.path);
    for (const auto* command : words.commands) {
      text += fmt::format("{} -f -a {} -d {}\n", here, command->get_name(),
                          in_quotes(command->get_description()));
    }
    if (words.takes_models) text += here + " -a '$__fovea_models'\n";
    if (words.takes_changes) text += here + " -a '$__fovea_keys'\n";
    for (const auto* option : words.options) {
      const bool is_flag = option->get_items_expected_max() == 0;
      const auto choices = option_choices(*option);
      const auto values = names_models(*option) ? std::string(" -a '$__fovea_models'")
                          : choices.empty()     ? std::string()
                                            : fmt::format(" -f -a '{}'", fmt::join(choices, " "));
      for (const auto& name : option->get_lnames()) {
        text += fmt::format("{} -l {}{}{} -d {}\n", here, name, is_flag ? "" : " -r",
                            is_flag ? "" : values, in_quotes(option->get_description()));
      }
    }
  }
  return text;
}

}  // namespace fovea::app
