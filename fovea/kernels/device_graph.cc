#include "fovea/kernels/device_graph.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "fovea/kernels/operators.h"

namespace fovea::kernels {

// The address of a DeviceGraph for the device of x, which is the caller's.
TORCH_LIBRARY_FRAGMENT(fovea, m) { m.def("new_device_graph(Tensor x) -> int"); }

std::unique_ptr<DeviceGraph> make_device_graph(c10::Device device) {
  static const auto op = find_operator<int64_t(const at::Tensor&)>("fovea::new_device_graph");
  if (!has_kernel(op, device)) return nullptr;
  const auto address = op.call(at::empty({1}, at::TensorOptions().device(device)));
  return std::unique_ptr<DeviceGraph>(reinterpret_cast<DeviceGraph*>(address));
}

}  // namespace fovea::kernels
