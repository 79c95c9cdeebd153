// Commands that train, and what they say, out of scripts and files with a command line.
#pragma once

#include <string>
#include <vector>

#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/shell.h"

namespace fovea::recipe_import {

// What one turn of a script's loops trains: its commands, each a phase.
struct TrainingRun {
  std::string turn;  // "lr-1e-3"; empty: there is no loop
  std::vector<Settings> phases;
};

// Throws ConfigError where nothing trains but something evaluates, and where some commands stand in
// a loop and others beside it. remark: what was left out, a line, or empty.
std::vector<TrainingRun> training_runs(const std::string& text, const std::string& source,
                                       std::string& remark);

std::string file_name(const ShellWord& word);
// A program of timm, T2T-ViT or JABAS that trains, by its file's name.
bool is_trainer(const ShellWord& word);
bool is_flag(const ShellWord& word);

// Flags without dashes and with underscores; the launcher's before them as launch.NAME; arguments
// without a flag as positional, positional_2, ...
Settings command_settings(const ShellCommand& command, const ShellScript& script,
                          const std::string& source);

}  // namespace fovea::recipe_import
