// torch.Tensor of Python and at::Tensor of C++: the same tensor, not a copy.
//
// Note [Tensors of Python]
// Both sides hold one TensorImpl. So a parameter of a model in C++ that Python has as
// torch.nn.Parameter has one gradient, one list of hooks and one version, and what an optimizer,
// load_state_dict or DistributedDataParallel does to it is done to the model. The three names below
// are libtorch_python's; its header for them includes pybind11, which does not compile for Python's
// stable ABI.
#pragma once

#include <ATen/core/Tensor.h>
#include <nanobind/nanobind.h>

// NOLINTBEGIN: names of libtorch_python
extern PyObject* THPVariableClass;  // torch.Tensor, of which torch._C.TensorBase is a base
PyObject* THPVariable_Wrap(const at::TensorBase& tensor);
PyObject* THPVariable_Wrap(const at::TensorBase& tensor, PyTypeObject* type);
// NOLINTEND

namespace fovea::python {

// The tensor of a torch.Tensor; undefined where `object` is none.
at::Tensor tensor_of(nanobind::handle object) noexcept;

// As an object of this class, such as torch.nn.Parameter, where Python does not have it yet.
nanobind::object wrapped_as(const at::Tensor& tensor, nanobind::handle type);

}  // namespace fovea::python

namespace nanobind::detail {

template <>
struct type_caster<at::Tensor> {
  NB_TYPE_CASTER(at::Tensor, const_name("torch.Tensor"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value = fovea::python::tensor_of(source);
    return value.defined();
  }
  static handle from_cpp(const at::Tensor& tensor, rv_policy, cleanup_list*) noexcept {
    return tensor.defined() ? handle(THPVariable_Wrap(tensor)) : none().release();
  }
};

}  // namespace nanobind::detail
