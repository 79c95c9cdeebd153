// fovea data balance: a sub-command of the group `data`.
#pragma once

#include "apps/fovea/command_line.h"

namespace fovea::app {

// data: the group `fovea data`.
void add_data_balance(Command data);

}  // namespace fovea::app
