#include "apps/fovea/overrides.h"

#include <CLI/CLI.hpp>

namespace fovea::app {

void add_overrides(CLI::App& command, std::vector<std::string>& overrides,
                   const std::string& example) {
  command.add_option("overrides", overrides, "changes to the config: " + example + " ...")
      ->type_name("a.b=c");
}

}  // namespace fovea::app
