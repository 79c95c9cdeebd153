#include "fovea/kernels/linear/gpu_products.h"

#include <torch/library.h>

#include <optional>
#include <tuple>

#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

const auto& product_op() {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                               const OptionalTensor&)>("fovea::linear_product");
  return op;
}

const auto& product_and_gelu_op() {
  static const auto op = find_operator<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
      "fovea::linear_product_and_gelu");
  return op;
}

const auto& input_gradient_op() {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&)>(
          "fovea::linear_input_gradient");
  return op;
}

const auto& weight_gradient_op() {
  static const auto op =
      find_operator<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, bool)>(
          "fovea::linear_weight_gradient");
  return op;
}

const auto& add_weight_gradient_op() {
  static const auto op =
      find_operator<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool)>(
          "fovea::linear_add_weight_gradient");
  return op;
}

OptionalTensor contiguous_or_none(const at::Tensor& x) {
  return x.defined() ? OptionalTensor(x.contiguous()) : std::nullopt;
}

// Rows of `width` values, which is what cuBLASLt reads or writes besides the product.
bool takes_gelu_of_rows(const ProductCase& product, int64_t width,
                        const HiddenActivation& activation) {
  return product_path(product) == ProductPath::kFused && width % 8 == 0 && product.is_aligned &&
         activation.kind == Activation::kGeluTanh && !activation.is_gated;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("linear_product(Tensor x, Tensor weight, Tensor? bias, Tensor? residual) -> Tensor");
  m.def("linear_product_and_gelu(Tensor x, Tensor weight, Tensor? bias) -> (Tensor, Tensor)");
  m.def("linear_input_gradient(Tensor dy, Tensor weight, Tensor? gelu_input) -> Tensor");
  m.def("linear_weight_gradient(Tensor dy, Tensor x, bool with_bias) -> (Tensor, Tensor)");
  m.def(
      "linear_add_weight_gradient(Tensor dy, Tensor x, Tensor(a!) sum, bool with_bias) -> Tensor");
}

bool has_gpu_products(const at::Tensor& x) {
  return x.is_cuda() && has_kernel(product_op(), x.device());
}

bool takes_gelu_gradient(const ProductCase& product, const HiddenActivation& activation) {
  return takes_gelu_of_rows(product, product.K, activation);
}

bool takes_gpu_gelu(const ProductCase& product, const HiddenActivation& activation) {
  return takes_gelu_of_rows(product, product.N, activation);
}

at::Tensor gpu_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& residual) {
  return product_op().call(x.contiguous(), weight.contiguous(), contiguous_or_none(bias),
                           contiguous_or_none(residual));
}

ProductAndGelu gpu_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias) {
  const auto [product, gelu] =
      product_and_gelu_op().call(x.contiguous(), weight.contiguous(), contiguous_or_none(bias));
  return {product, gelu};
}

at::Tensor gpu_input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return input_gradient_op().call(dy.contiguous(), weight.contiguous(), std::nullopt);
}

WeightGradients gpu_weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias) {
  auto [weight, bias] = weight_gradient_op().call(dy.contiguous(), x.contiguous(), wants_bias);
  return {weight, bias};
}

bool adds_weight_gradients(const at::Tensor& dy, const at::Tensor& x) {
  return product_path(case_of_input(x, dy.size(1))) == ProductPath::kFused;
}

at::Tensor add_weight_gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& sum,
                                bool wants_bias) {
  auto bias = add_weight_gradient_op().call(dy.contiguous(), x.contiguous(), sum, wants_bias);
  sum.unsafeGetTensorImpl()->bump_version();
  return bias;
}

at::Tensor input_gradient_through_gelu(const at::Tensor& dy, const at::Tensor& weight,
                                       const at::Tensor& x) {
  return input_gradient_op().call(dy.contiguous(), weight.contiguous(), x.contiguous());
}

}  // namespace fovea::kernels
