// The sub-commands of `fovea data` for images that are too large for memory.
#pragma once

#include "apps/fovea/command_line.h"

namespace fovea::app {

void add_data_patch(Command group);
void add_data_unpatch(Command group);

}  // namespace fovea::app
