#include "fovea/kernels/linear/gpu_products.h"

#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include "fovea/kernels/linear/padded_products.h"
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

bool has_product_kernels(const at::Tensor& x) {
  return x.is_cuda() && has_kernel(product_op(), x.device());
}

bool is_aligned(const at::Tensor& x) {
  return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
}

bool is_sixteen_bit(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

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
}

ProductPath product_path(const ProductCase& product) {
  constexpr int64_t kLeastPadded = 64;  // below, the copy is a large part of the product
  const auto& [dtype, has_kernels, M, N, K, is_aligned] = product;
  const bool has_dtype = dtype == at::kFloat || is_sixteen_bit(dtype);
  const auto [least, most] = std::minmax({M, N, K});
  if (!has_kernels || !has_dtype || least == 0 || most > std::numeric_limits<int32_t>::max()) {
    return ProductPath::kPlain;
  }
  const bool has_short_rows = is_sixteen_bit(dtype) && K % 8 != 0 && K >= kLeastPadded;
  return has_short_rows ? ProductPath::kPadded : ProductPath::kFused;
}

bool takes_gelu_gradient(const ProductCase& product, const HiddenActivation& activation) {
  return takes_gelu_of_rows(product, product.K, activation);
}

bool takes_gelu(const ProductCase& product, const HiddenActivation& activation) {
  return takes_gelu_of_rows(product, product.N, activation);
}

ProductCase case_of_input(const at::Tensor& x, int64_t N) {
  const bool has_kernels = has_product_kernels(x);
  return {x.scalar_type(), has_kernels, x.size(0), N, x.size(1), has_kernels && is_aligned(x)};
}

ProductCase case_of_gradient(const at::Tensor& dy, int64_t K) {
  const bool has_kernels = has_product_kernels(dy);
  return {dy.scalar_type(), has_kernels, dy.size(0), dy.size(1), K, has_kernels && is_aligned(dy)};
}

at::Tensor gpu_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& residual) {
  switch (product_path(case_of_input(x, weight.size(0)))) {
    case ProductPath::kPlain:
      return {};
    case ProductPath::kPadded:
      return padded_product(x, weight, bias, residual);
    case ProductPath::kFused:
      return product_op().call(x.contiguous(), weight.contiguous(), contiguous_or_none(bias),
                               contiguous_or_none(residual));
  }
  return {};
}

ProductAndGelu gpu_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias) {
  const auto [product, gelu] =
      product_and_gelu_op().call(x.contiguous(), weight.contiguous(), contiguous_or_none(bias));
  return {product, gelu};
}

at::Tensor gpu_input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  switch (product_path(case_of_gradient(dy, weight.size(1)))) {
    case ProductPath::kPlain:
      return {};
    case ProductPath::kPadded:
      return padded_input_gradient(dy, weight);
    case ProductPath::kFused:
      return input_gradient_op().call(dy.contiguous(), weight.contiguous(), std::nullopt);
  }
  return {};
}

std::optional<WeightGradients> gpu_weight_gradients(const at::Tensor& dy, const at::Tensor& x,
                                                    bool wants_bias) {
  switch (product_path(case_of_input(x, dy.size(1)))) {
    case ProductPath::kPlain:
      return {};
    case ProductPath::kPadded:
      return padded_weight_gradients(dy, x, wants_bias);
    case ProductPath::kFused: {
      auto [weight, bias] = weight_gradient_op().call(dy.contiguous(), x.contiguous(), wants_bias);
      return WeightGradients{weight, bias};
    }
  }
  return {};
}

at::Tensor input_gradient_through_gelu(const at::Tensor& dy, const at::Tensor& weight,
                                       const at::Tensor& x) {
  return input_gradient_op().call(dy.contiguous(), weight.contiguous(), x.contiguous());
}

}  // namespace fovea::kernels
