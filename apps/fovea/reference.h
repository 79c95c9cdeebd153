// The reference in docs/reference.md: every command, flag and key, written by the program itself.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace fovea::app {

// Markdown. `app`: the whole program, with all its sub-commands.
std::string reference_page(const CLI::App& app);

}  // namespace fovea::app
