// fovea config import: a sub-command of the group `config`.
#pragma once

#include "apps/fovea/command_line.h"

namespace fovea::app {

// config: the group `fovea config`.
void add_config_import(Command config);

}  // namespace fovea::app
