// The sub-commands of `fovea bench` that have a file of their own.
#pragma once

namespace CLI {
class App;
}

namespace fovea::app {

void add_bench_data(CLI::App& group);

}  // namespace fovea::app
