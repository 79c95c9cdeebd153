// Commands that train, and what they say, out of scripts and files with a command line.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/shell.h"

namespace fovea::recipe_import {

using CommandSettings = std::function<Settings(const ShellCommand&, const ShellScript&)>;

// What one turn of a script's loops trains: its commands, each a phase.
struct TrainingRun {
  std::string turn;  // "lr-1e-3"; empty: there is no loop
  std::vector<Settings> phases;
};

// Throws ConfigError where nothing trains but something evaluates, and where some commands stand in
// a loop and others beside it. remark: what was left out, a line, or empty.
// read: what a command says.
std::vector<TrainingRun> training_runs(const std::string& text, const std::string& source,
                                       const CommandSettings& read, std::string& remark);

// Throws ConfigError where two of the commands stand in different branches of an `if` or `case`:
// one of them runs, and only the shell knows which.
void check_one_branch(const std::vector<ShellCommand>& commands, const std::string& source);

std::string file_name(const ShellWord& word);
// A program of timm, T2T-ViT or JABAS that trains, by its file's name.
bool is_trainer(const ShellWord& word);
bool is_flag(const ShellWord& word);

// Flags without dashes and with underscores; the launcher's before them as launch.NAME; arguments
// without a flag as positional, positional_2, ...
Settings command_settings(const ShellCommand& command, const ShellScript& script,
                          const std::string& source);

}  // namespace fovea::recipe_import
