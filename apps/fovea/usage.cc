#include "apps/fovea/usage.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "apps/fovea/overrides.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/nearest.h"

namespace fovea::app {
namespace {

bool is_option(const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word == "--") return false;
  return word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1]));  // -1 is a number
}

std::string without_value(const std::string& word) { return word.substr(0, word.find('=')); }

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* sub : command.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

// "fovea data inspect", where that is the name of a command within another one; else empty.
std::string name_elsewhere(const CLI::App& command, const std::string& word) {
  for (const auto* sub : command.get_subcommands({})) {
    if (sub->get_name() == word) return full_name(*sub);
    if (auto deeper = name_elsewhere(*sub, word); !deeper.empty()) return deeper;
  }
  return "";
}

[[noreturn]] void fail_command(const CLI::App& program, const CLI::App& command,
                               const std::string& word) {
  auto guess = nearest(word, command_names(command));
  if (guess.empty()) guess = name_elsewhere(program, word);
  if (guess.empty() && word.ends_with(".yaml") && is_there(word)) guess = "fovea train " + word;
  const auto name = full_name(command);
  const auto of = &command == &program ? "" : " of " + name;
  const auto question = guess.empty() ? "" : fmt::format(" did you mean '{}'?", guess);
  fail<Error>("unknown command '{}'{};{} `{} --help` lists the commands", word, of, question, name);
}

[[noreturn]] void fail_option(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  bool takes_changes = false;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    takes_changes = takes_changes || option->get_type_name() == kOverrideType;
  }
  const auto option = without_value(word);
  const auto name = full_name(command);
  // As other systems write them; a config's keys have dots, options none.
  if (takes_changes && option.find('.') != option.npos) {
    fail<Error>("unknown option '{}' of {}; a change to the config has no dashes: {}=...", option,
                name, option.substr(option.find_first_not_of('-')));
  }
  const auto guess = nearest(option, known);
  const auto question = guess.empty() ? "" : fmt::format(" did you mean '{}'?", guess);
  fail<Error>("unknown option '{}' of {};{} `{} --help` lists the options", option, name, question,
              name);
}

const CLI::App* find_command(const CLI::App& command, const std::string& name) {
  const auto subs = command.get_subcommands({});
  const auto found = std::find_if(subs.begin(), subs.end(),
                                  [&](const CLI::App* sub) { return sub->get_name() == name; });
  return found == subs.end() ? nullptr : *found;
}

// The command that the words lead to, as far as they are commands.
const CLI::App& command_of(const CLI::App& program, const std::vector<std::string>& words) {
  const auto* command = &program;
  for (const auto& word : words) {
    const auto* next = find_command(*command, word);
    if (next == nullptr) break;
    command = next;
  }
  return *command;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const auto* parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

bool takes_arguments(const CLI::App& command) {
  const auto options = command.get_options();
  return std::any_of(options.begin(), options.end(),
                     [](const auto* option) { return option->get_positional(); });
}

std::string argument_name(const CLI::Option& option) {
  return option.get_positional() ? option.get_type_name() : option.get_name(false, true);
}

// The parser knows them as help shows them: "TEXT:{auto,cpu,cuda}".
std::vector<std::string> option_choices(const CLI::Option& option) {
  const auto type = option.get_type_name();
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == type.npos || end == type.npos) return {};
  std::istringstream words(type.substr(begin + 1, end - begin - 1));
  std::vector<std::string> choices;
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

std::vector<const CLI::App*> all_commands(const CLI::App& program) {
  std::vector<const CLI::App*> all = {&program};
  for (const auto* sub : program.get_subcommands({})) {
    const auto below = all_commands(*sub);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::vector<std::string> examples_of(const CLI::App& command) {
  std::istringstream lines(command.get_footer());
  std::vector<std::string> examples;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) examples.push_back(line.substr(2));
  }
  return examples;
}

void check_words(const CLI::App& program, const std::vector<std::string>& words) {
  const auto* command = &program;
  for (const auto& word : words) {
    if (word == "--") return;
    if (is_option(word)) {
      const bool is_short = word[1] != '-';
      const auto name = is_short ? word.substr(0, 2) : without_value(word);
      const auto* option = command->get_option_no_throw(name);
      if (option == nullptr) fail_option(*command, word);
      if (option == command->get_help_ptr()) return;
    } else if (!command->get_subcommands({}).empty()) {
      const auto* next = find_command(*command, word);
      if (next == nullptr && takes_arguments(*command)) continue;
      if (next == nullptr) fail_command(program, *command, word);
      command = next;
    }
  }
}

std::string usage_message(const CLI::App& program, const CLI::ParseError& error,
                          const std::vector<std::string>& words) {
  const auto& command = command_of(program, words);
  const bool is_group = !command.get_subcommands({}).empty() && !takes_arguments(command);
  if (is_group) return program.help();
  const auto name = full_name(command);
  auto what = one_line(error.what());
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (const auto* option : command.get_options()) {
      if (!option->get_required() || option->count() > 0) continue;
      what = argument_name(*option) + " is missing";
      break;
    }
    const auto examples = examples_of(command);
    if (!examples.empty()) what += ", as in: " + examples.front();
  }
  return fmt::format("error: {}: {}; `{} --help` tells more\n", name, what, name);
}

}  // namespace fovea::app
