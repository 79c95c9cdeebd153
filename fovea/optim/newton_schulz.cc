#include "fovea/optim/newton_schulz.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/linear.h"
#include "fovea/optim/clip.h"

namespace fovea::optim {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kLeastNorm = 1e-7;

// a b^T
at::Tensor transposed_product(const at::Tensor& a, const at::Tensor& b) {
  return a.is_cpu() ? kernels::linear(a, b, {}) : at::mm(a, b.t());
}

// beta base + alpha a b^T
at::Tensor scaled_sum(const at::Tensor& base, double beta, const at::Tensor& a, const at::Tensor& b,
                      double alpha) {
  if (!a.is_cpu()) return at::addmm(base, a, b.t(), beta, alpha);
  return kernels::linear(a, b, {}).mul_(alpha).add_(base, beta);
}

}  // namespace

at::Tensor newton_schulz(const at::Tensor& x, int64_t steps) {
  FOVEA_CHECK(x.dim() == 2, "newton_schulz: {} dims; expected a matrix", x.dim());
  const bool is_tall = x.size(0) > x.size(1);
  const auto dtype = x.is_cpu() ? at::kFloat : at::kBFloat16;
  // The products are those of the shorter side.
  const auto start = (is_tall ? x.t() : x).to(dtype).contiguous();  // [K, L], K <= L
  auto result = start.div(std::max(global_norm(start), kLeastNorm));
  for (int64_t i = 0; i < steps; ++i) {
    const auto gram = transposed_product(result, result);              // [K, K]
    const auto update = scaled_sum(gram, kB, gram, gram, kC);          // [K, K], gram is symmetric
    result = scaled_sum(result, kA, update, result.t(), /*alpha=*/1);  // [K, L]
  }
  return is_tall ? result.t() : result;
}

}  // namespace fovea::optim
