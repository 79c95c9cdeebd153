// Completion of command lines by shells: scripts made of the tree of commands.
#pragma once

#include <string>

#include "apps/fovea/command_line.h"

namespace fovea::app {

// Each completes commands, options, choices of options, names of models and keys of recipes; all
// else is files. To be sourced, or put where the shell looks for completions.
std::string bash_completion(Command app);
std::string zsh_completion(Command app);
std::string fish_completion(Command app);

}  // namespace fovea::app
