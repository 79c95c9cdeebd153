#include "tests/reference/ops.h"

#include <ATen/ATen.h>

#include <numbers>

namespace fovea::reference {
namespace {

// sum over k of a[..., n, k] b[..., m, k] -> [..., n, m], by broadcasting: no matrix product of the
// library.
at::Tensor inner_products(const at::Tensor& a, const at::Tensor& b) {
  return (a.unsqueeze(-2) * b.unsqueeze(-3)).sum(-1);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto y = (x.unsqueeze(-2) * weight).sum(-1);
  return bias.defined() ? y + bias : y;
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps) {
  const auto centred = x - x.mean({-1}, /*keepdim=*/true);
  auto y = centred / at::sqrt((centred * centred).mean({-1}, /*keepdim=*/true) + eps);
  if (weight.defined()) y = y * weight;
  return bias.defined() ? y + bias : y;
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  const auto y = x / at::sqrt((x * x).mean({-1}, /*keepdim=*/true) + eps);
  return weight.defined() ? y * weight : y;
}

at::Tensor attention_probabilities(const at::Tensor& q, const at::Tensor& k, double scale) {
  const auto exponentials = at::exp(inner_products(q, k) * scale);
  return exponentials / exponentials.sum({-1}, /*keepdim=*/true);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const at::Tensor& mask) {
  auto probabilities = attention_probabilities(q, k, scale);
  if (mask.defined()) probabilities = probabilities * mask;
  return inner_products(probabilities, v.transpose(-2, -1));
}

at::Tensor activate(const at::Tensor& x, kernels::Activation kind) {
  using kernels::Activation;
  switch (kind) {
    case Activation::kGelu:
      return x * 0.5 * (1.0 + at::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh: {
      const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
      return x * 0.5 * (1.0 + at::tanh(factor * (x + 0.044715 * x * x * x)));
    }
    case Activation::kQuickGelu:
      return x / (1.0 + at::exp(-1.702 * x));
    case Activation::kSilu:
      return x / (1.0 + at::exp(-x));
    case Activation::kRelu:
      return at::where(x > 0, x, at::zeros_like(x));
  }
  return {};
}

uint32_t drop_word(PhiloxKey key, uint32_t step, int64_t row, int64_t element) {
  const auto wide = static_cast<uint64_t>(row);
  const PhiloxCounter counter = {static_cast<uint32_t>(element / 4), static_cast<uint32_t>(wide),
                                 static_cast<uint32_t>(wide >> 32), step};
  return philox4x32(counter, key)[static_cast<size_t>(element % 4)];
}

}  // namespace fovea::reference
