// Exceptions of C++ as the classes of fovea.data._errors, in both modules of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "fovea/core/error.h"

namespace fovea::python {

// For what functions of this module throw, or of another one that shares nanobind's tables with it.
void translate_errors();

// The same as an object, for an answer that is an error.
nanobind::object error_object(const Error& error);

}  // namespace fovea::python
