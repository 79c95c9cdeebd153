// fovea config import: a sub-command of the group `config`.
#pragma once

namespace CLI {
class App;
}

namespace fovea::app {

// config: the group `fovea config`.
void add_config_import(CLI::App& config);

}  // namespace fovea::app
