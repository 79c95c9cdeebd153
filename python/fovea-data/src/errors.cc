#include "python/fovea-data/src/errors.h"

#include <exception>

#include "fovea/core/missing_file.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

const char* class_name(const Error& error) {
  if (dynamic_cast<const ConfigError*>(&error)) return "ConfigError";
  if (dynamic_cast<const MissingFileError*>(&error)) return "MissingFileError";
  if (dynamic_cast<const DataError*>(&error)) return "DataError";
  if (dynamic_cast<const CheckpointError*>(&error)) return "CheckpointError";
  if (dynamic_cast<const DivergedError*>(&error)) return "DivergedError";
  return "Error";
}

nb::object error_class(const Error& error) {
  return nb::module_::import_("fovea.data._errors").attr(class_name(error));
}

void translate_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    PyErr_SetString(error_class(error).ptr(), error.what());
  }
}

}  // namespace

void translate_errors() { nb::register_exception_translator(translate_error, nullptr); }

nb::object error_object(const Error& error) { return error_class(error)(error.what()); }

}  // namespace fovea::python
