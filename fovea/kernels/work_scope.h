// Says what a piece of our own work costs at least to those who listen to libtorch's operations
// (at::RecordFunction), such as `fovea bench model --profile`.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <array>
#include <initializer_list>

namespace fovea::kernels {

// Names of work begin so; its inputs are FLOPs (2 a multiply-add of a matrix product) and bytes.
inline constexpr const char* kWorkPrefix = "fovea::";

// Work as long as this lives. With nobody listening it costs some nanoseconds.
class WorkScope {
 public:
  // name: kWorkPrefix and the rest. bytes: what must be read and written if nothing is in cache.
  WorkScope(const char* name, double flops, int64_t bytes) : guard_(at::RecordScope::FUNCTION) {
    if (!guard_.isActive()) return;
    const std::array<c10::IValue, 2> costs = {flops, bytes};
    guard_.before(name, c10::ArrayRef<const c10::IValue>(costs.data(), costs.size()));
  }

 private:
  at::RecordFunction guard_;
};

// Of a product of M rows with a weight [N, K], or of a gradient of it.
inline double flops_of_product(int64_t M, const at::Tensor& weight) {
  return 2.0 * static_cast<double>(M) * static_cast<double>(weight.numel());
}

// Of all of them together; undefined ones have none.
inline int64_t bytes_of(std::initializer_list<at::Tensor> tensors) {
  int64_t sum = 0;
  for (const auto& tensor : tensors) {
    if (tensor.defined()) sum += static_cast<int64_t>(tensor.nbytes());
  }
  return sum;
}

}  // namespace fovea::kernels
