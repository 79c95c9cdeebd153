// Operators of the dispatcher: our own, which back ends register at run time, and those of libtorch
// that have no function in C++.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/TensorOptions.h>

#include <optional>

namespace fovea::kernels {

// Looks a name up, "fovea::layer_norm"; keep what it returns. Throws c10::Error for an unknown one
// and for a signature that is not its schema's.
template <class Signature>
c10::TypedOperatorHandle<Signature> find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Whether a back end registered this operator for tensors on `device`.
inline bool has_kernel(const c10::OperatorHandle& op, const c10::Device& device) {
  return op.hasKernelForDispatchKey(c10::computeDispatchKey(at::kFloat, at::kStrided, device));
}

// Operators and autograd's functions take no undefined tensors.
inline std::optional<at::Tensor> where_defined(const at::Tensor& x) {
  return x.defined() ? std::optional<at::Tensor>(x) : std::nullopt;
}

}  // namespace fovea::kernels
