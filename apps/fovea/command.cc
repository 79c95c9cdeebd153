#include "apps/fovea/command.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace fovea::app {

CLI::App* add_command(CLI::App& group, std::string name, std::string help) {
  return group.add_subcommand(std::move(name), std::move(help));
}

}  // namespace fovea::app
