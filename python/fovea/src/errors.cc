#include "python/fovea/src/errors.h"

#include <c10/util/Exception.h>

#include <exception>

#include "fovea/kernels/out_of_memory.h"

namespace fovea::python {
namespace {

namespace nb = nanobind;

nb::object error_class(const char* name) {
  return nb::module_::import_("fovea._errors").attr(name);
}

void raise(const char* name, const std::exception& error) {
  PyErr_SetString(error_class(name).ptr(), error.what());
}

// libtorch's message without the C++ stack below it.
void raise_of_torch(const c10::Error& error) {
  std::string text = error.what_without_backtrace();
  text = text.substr(0, text.find('\n'));
  PyErr_SetString(kernels::is_out_of_memory(error) ? PyExc_MemoryError : PyExc_RuntimeError,
                  text.c_str());
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const ConfigError& error) {
    raise("ConfigError", error);
  } catch (const CheckpointError& error) {
    raise("CheckpointError", error);
  } catch (const DataError& error) {
    raise("DataError", error);
  } catch (const DivergedError& error) {
    raise("DivergedError", error);
  } catch (const Error& error) {
    raise("Error", error);
  } catch (const c10::Error& error) {
    raise_of_torch(error);
  }
}

}  // namespace

void translate_exceptions() { nb::register_exception_translator(translate, nullptr); }

nb::object error_object(const DataError& error) { return error_class("DataError")(error.what()); }

}  // namespace fovea::python
