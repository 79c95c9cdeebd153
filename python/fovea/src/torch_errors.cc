#include "python/fovea/src/torch_errors.h"

#include <c10/util/Exception.h>
#include <nanobind/nanobind.h>

#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>

#include "fovea/kernels/out_of_memory.h"

namespace torch {
void translate_exception_to_python(const std::exception_ptr& thrown);  // libtorch_python's
}

namespace fovea::python {
namespace {

// An exception of Python on its way through libtorch: of hooks that a user has set, such as those
// of torch.utils.checkpoint. The header that declares them includes pybind11, which does not
// compile for Python's stable ABI.
bool is_of_python(const std::exception& error) {
  const std::string_view name = typeid(error).name();
  return name == "12python_error" || name == "N8pybind1117error_already_setE";
}

// Messages without the C++ stack below them.
void translate_torch_error(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error& error) {
    std::string text = error.what_without_backtrace();
    text = text.substr(0, text.find('\n'));
    PyErr_SetString(kernels::is_out_of_memory(error) ? PyExc_MemoryError : PyExc_RuntimeError,
                    text.c_str());
  } catch (const std::exception& error) {
    if (!is_of_python(error)) throw;
    torch::translate_exception_to_python(thrown);
  }
}

}  // namespace

void translate_torch_errors() {
  nanobind::register_exception_translator(translate_torch_error, nullptr);
}

}  // namespace fovea::python
