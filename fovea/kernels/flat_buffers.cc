#include "fovea/kernels/flat_buffers.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/accumulate.h>

namespace fovea::kernels {

at::Tensor flat_view(const at::Tensor& buffer, int64_t begin, at::IntArrayRef sizes) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return buffer.narrow(0, begin, c10::multiply_integers(sizes)).view(sizes);
}

void move_gradient(const at::Tensor& param, const at::Tensor& view) {
  auto& grad = param.mutable_grad();
  if (!grad.defined()) {
    view.zero_();
    grad = view;
    return;
  }
  const bool is_there = grad.is_same(view) ||
                        (grad.is_alias_of(view) && grad.storage_offset() == view.storage_offset() &&
                         grad.strides() == view.strides());
  if (is_there) return;
  view.copy_(grad);
  grad = view;
}

}  // namespace fovea::kernels
