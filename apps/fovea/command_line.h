// Commands, their options and flags: CLI11 behind a narrow door. CLI11 is all header, and its
// parser would be compiled by every file that adds an option; here command_line.cc alone does, with
// main.cc and reference.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fovea::app {

// An option, a positional argument or a flag. Each call adds a rule; what the user gives against
// one ends the program with exit code 2, the option's name and what was expected.
class CommandOption {
 public:
  explicit CommandOption(CLI::Option& option) : option_(&option) {}

  CommandOption& required();
  CommandOption& type_name(const std::string& name);  // what help calls the value: "RUN_DIR"
  CommandOption& delimiter(char between_values);      // of a list: a,b,c is three values
  CommandOption& one_word();                          // of a list: it ends with the first word
  CommandOption& show_default();                      // help gives the value before parsing
  CommandOption& one_of(const std::vector<std::string>& words);
  CommandOption& in_range(int64_t low, int64_t high);  // both included
  CommandOption& share();                              // a number in [0, 1]
  CommandOption& positive();
  CommandOption& non_negative();
  CommandOption& existing_file();
  CommandOption& needs(CommandOption other);
  CommandOption& excludes(CommandOption other);

 private:
  CLI::Option* option_;
};

// The program or one of its commands: a reference, copied freely, valid while the parser lives.
class Command {
 public:
  explicit Command(CLI::App& parser) : parser_(&parser) {}

  Command add_command(const std::string& name, const std::string& help);
  // name: "source" (positional) or "--out". T is one of those instantiated in command_line.cc.
  // `target` must live until the command has run.
  template <class T>
  CommandOption add_option(const std::string& name, T& target, const std::string& help);
  CommandOption add_flag(const std::string& name, bool& target, const std::string& help);
  // A flag that may bring a value, --tree or --tree=VALUE: target is then "true" or VALUE.
  CommandOption add_flag(const std::string& name, std::string& target, const std::string& help);

  // Whole command lines, which its help ends in.
  Command& examples(const std::vector<std::string>& lines);
  void require_command();                    // one of its commands must be given
  void callback(std::function<void()> run);  // not where one of its commands is given

  const CLI::App& parser() const { return *parser_; }

 private:
  CLI::App* parser_;
};

}  // namespace fovea::app
