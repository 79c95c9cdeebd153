#include "python/fovea/src/torch_errors.h"

#include <c10/util/Exception.h>
#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "fovea/kernels/out_of_memory.h"

namespace fovea::python {
namespace {

// The message without the C++ stack below it.
void translate_torch_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    text = text.substr(0, text.find('\n'));
    PyErr_SetString(kernels::is_out_of_memory(error) ? PyExc_MemoryError : PyExc_RuntimeError,
                    text.c_str());
  }
}

}  // namespace

void translate_torch_errors() {
  nanobind::register_exception_translator(translate_torch_error, nullptr);
}

}  // namespace fovea::python
