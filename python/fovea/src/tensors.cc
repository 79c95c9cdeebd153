#include "python/fovea/src/tensors.h"

#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

namespace fovea::python {

namespace nb = nanobind;

at::Tensor tensor_of(nb::handle object) noexcept {
  if (PyObject_IsInstance(object.ptr(), THPVariableClass) != 1) {
    PyErr_Clear();
    return {};
  }
  PyObject* address = PyObject_GetAttrString(object.ptr(), "_cdata");
  if (address == nullptr) {
    PyErr_Clear();
    return {};
  }
  auto* impl = static_cast<c10::TensorImpl*>(PyLong_AsVoidPtr(address));
  Py_DECREF(address);
  using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  return at::Tensor(Pointer::reclaim_copy(impl));
}

nb::object wrapped_as(const at::Tensor& tensor, nb::handle type) {
  PyObject* object = THPVariable_Wrap(tensor, reinterpret_cast<PyTypeObject*>(type.ptr()));
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

}  // namespace fovea::python
