#include "fovea/kernels/tensor_memory.h"

#include <c10/core/DeviceGuard.h>

namespace fovea::kernels {

void take_memory(const at::Tensor& x) {
  auto* storage = x.storage().unsafeGetStorageImpl();
  const auto bytes = static_cast<size_t>(x.numel()) * x.element_size();
  const c10::DeviceGuard own(x.device());  // allocators of GPUs take the current one
  storage->set_data_ptr_noswap(storage->allocator()->allocate(bytes));
  storage->set_nbytes(bytes);
}

void give_memory_back(const at::Tensor& x) {
  auto* storage = x.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, x.device()));
  storage->set_nbytes(0);
}

}  // namespace fovea::kernels
