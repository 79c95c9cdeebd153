// The sub-commands of `fovea data` for images that are too large for memory.
#pragma once

namespace CLI {
class App;
}

namespace fovea::app {

void add_data_patch(CLI::App& group);
void add_data_unpatch(CLI::App& group);

}  // namespace fovea::app
