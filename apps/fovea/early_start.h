// What a command will need, begun while the libraries start, before main.
#pragma once

namespace fovea::app {

// See Note [Early memory]: for libtorch's operators, and for the weights that a command names, be
// it by their file or by their run's folder. Called from .preinit_array, as limit_spinning, and
// after it.
void start_early(int argc, char** argv, char** environment);

}  // namespace fovea::app
