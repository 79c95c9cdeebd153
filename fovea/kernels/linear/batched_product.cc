#include "fovea/kernels/linear/batched_product.h"

#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "fovea/core/error.h"
#include "fovea/kernels/cpu/one_mkl_thread.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/saved_activation.h"

namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor each_product(const at::Tensor& a, const at::Tensor& b) {
  const bool is_cpu_float = a.is_cpu() && a.scalar_type() == at::kFloat && a.numel() > 0;
  const auto path = kernel_paths().of(KernelOp::kLinear, at::kFloat).path;
  if (!is_cpu_float || path == KernelPath::kReference) return at::bmm(a, b.transpose(1, 2));
  const int64_t B = a.size(0);
  auto out = at::empty({B, a.size(1), b.size(1)}, a.options());
  cpu::each_product(B, [&](int64_t i) {
    auto part = out.select(0, i);
    at::mm_out(part, a.select(0, i), b.select(0, i).t());
  });
  return out;
}

class BatchedProductFunction : public SavingFunction<BatchedProductFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& a, const at::Tensor& b) {
    if (ctx != nullptr) ctx->save_for_backward({save_activation(a), save_activation(b)});
    return each_product(a, b);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& dy = gradients[0];  // [B, M, N]
    const auto turned = [&](size_t i) {
      return read_activation(saved[i], dy.scalar_type()).transpose(1, 2);
    };
    variable_list result(2);
    if (ctx->needs_input_grad(0)) result[0] = each_product(dy, turned(1));
    if (ctx->needs_input_grad(1)) result[1] = each_product(dy.transpose(1, 2), turned(0));
    return result;
  }
};

}  // namespace

at::Tensor batched_product(const at::Tensor& a, const at::Tensor& b) {
  FOVEA_CHECK(a.dim() == 3 && b.dim() == 3 && a.size(0) == b.size(0) && a.size(2) == b.size(2) &&
                  a.scalar_type() == b.scalar_type(),
              "batched_product: found {} {} and {} {}; expected [B, M, K] and [B, N, K] of one "
              "dtype",
              c10::toString(a.scalar_type()), c10::str(a.sizes()), c10::toString(b.scalar_type()),
              c10::str(b.sizes()));
  return BatchedProductFunction::apply(a, b);
}

}  // namespace fovea::kernels
