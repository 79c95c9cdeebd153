// fovea data balance: a sub-command of the group `data`.
#pragma once

namespace CLI {
class App;
}

namespace fovea::app {

// data: the group `fovea data`.
void add_data_balance(CLI::App& data);

}  // namespace fovea::app
