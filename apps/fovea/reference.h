// The reference in docs/reference.md: every command, flag and key, written by the program itself.
#pragma once

#include <string>

#include "apps/fovea/command_line.h"

namespace fovea::app {

// Markdown. `app`: the whole program, with all its sub-commands.
std::string reference_page(Command app);

}  // namespace fovea::app
