// Exceptions of C++ as those of fovea._errors.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "fovea/core/error.h"

namespace fovea::python {

void translate_exceptions();

// An object of fovea._errors.DataError, for an answer that is an error.
nanobind::object error_object(const DataError& error);

}  // namespace fovea::python
