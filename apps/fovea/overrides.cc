#include "apps/fovea/overrides.h"

namespace fovea::app {

void add_overrides(Command command, std::vector<std::string>& overrides,
                   const std::string& example) {
  command.add_option("overrides", overrides, "changes to the config: " + example + " ...")
      .type_name(kOverrideType);
}

}  // namespace fovea::app
