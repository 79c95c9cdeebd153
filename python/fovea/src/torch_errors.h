// Exceptions of libtorch as Python's own classes.
#pragma once

namespace fovea::python {

void translate_torch_errors();

}  // namespace fovea::python
