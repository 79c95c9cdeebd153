// What is told of a command line that cannot be read: one line, with the nearest word.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace fovea::app {

// Throws Error for the first command or option that the program does not have. words: the command
// line without the program's name.
void check_words(const CLI::App& program, const std::vector<std::string>& words);

// What the parser refused, as a line; of a command that lacks its sub-command, its help.
std::string usage_message(const CLI::App& program, const CLI::ParseError& error,
                          const std::vector<std::string>& words);

// The command's name behind those that it belongs to: "fovea data pack".
std::string full_name(const CLI::App& command);
// Whether it takes more than options and commands of its own.
bool takes_arguments(const CLI::App& command);
// What is written in place of a positional argument: "RECIPE|RUN_DIR"; of an option its name.
std::string argument_name(const CLI::Option& option);
// The words that an option takes, where there are such; else empty.
std::vector<std::string> option_choices(const CLI::Option& option);
// The program and all commands below it, each before those within it.
std::vector<const CLI::App*> all_commands(const CLI::App& program);
// The examples at the end of its help.
std::vector<std::string> examples_of(const CLI::App& command);

}  // namespace fovea::app
