// The products of the CUDA module, by libtorch's operations.
#include <ATen/ops/add.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <torch/library.h>

#include <atomic>
#include <optional>
#include <tuple>

#include "tests/stub_gpu/stub_device.h"
#include "tests/stub_gpu/stub_gpu.h"

namespace fovea::stub_gpu {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

std::atomic<int64_t> most_rows{0};

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                          const OptionalTensor& residual) {
  note_operator("fovea::linear_product");
  const auto y = at::linear(x, weight, bias);
  return residual ? at::add(y, *residual) : y;
}

std::tuple<at::Tensor, at::Tensor> linear_product_and_gelu(const at::Tensor& x,
                                                           const at::Tensor& weight,
                                                           const OptionalTensor& bias) {
  const auto y = at::linear(x, weight, bias);
  return {y, at::gelu(y, "tanh")};
}

at::Tensor linear_input_gradient(const at::Tensor& dy, const at::Tensor& weight,
                                 const OptionalTensor& gelu_input) {
  TORCH_CHECK(most_rows == 0 || dy.size(0) <= most_rows,
              "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
  const auto dx = at::matmul(dy, weight);
  return gelu_input ? at::gelu_backward(dx, *gelu_input, "tanh") : dx;
}

at::Tensor sums_of(const at::Tensor& dy, bool are_wanted) {
  return are_wanted ? dy.to(at::kFloat).sum(0) : at::Tensor();
}

std::tuple<at::Tensor, at::Tensor> linear_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                                          bool with_bias) {
  note_operator("fovea::linear_weight_gradient");
  return {at::matmul(dy.t(), x).to(at::kFloat), sums_of(dy, with_bias)};
}

at::Tensor linear_add_weight_gradient(const at::Tensor& dy, const at::Tensor& x,
                                      const at::Tensor& sum, bool with_bias) {
  note_operator("fovea::linear_add_weight_gradient");
  at::Tensor to = sum;
  to.copy_(at::add(to, at::matmul(dy.t(), x)));  // not by add_, which tests look for
  return sums_of(dy, with_bias);
}

}  // namespace

void limit_rows_of_products(int64_t rows) { most_rows = rows; }

TORCH_LIBRARY_IMPL(fovea, CUDA, m) {
  m.impl("linear_product", linear_product);
  m.impl("linear_product_and_gelu", linear_product_and_gelu);
  m.impl("linear_input_gradient", linear_input_gradient);
  m.impl("linear_weight_gradient", linear_weight_gradient);
  m.impl("linear_add_weight_gradient", linear_add_weight_gradient);
}

}  // namespace fovea::stub_gpu
