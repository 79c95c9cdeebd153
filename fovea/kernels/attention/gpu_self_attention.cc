// B batch, N tokens, H heads, K head_dim, D = H K.
#include "fovea/kernels/attention/gpu_self_attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/elementwise/reduce.h"
#include "fovea/kernels/operators.h"

namespace fovea::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Each [M, N] -> side by side [M, 3 N], and its sums over rows [3 N] float32.
const auto& join_op() {
  static const auto op = find_operator<std::tuple<at::Tensor, at::Tensor>(
      const at::Tensor&, const at::Tensor&, const at::Tensor&)>("fovea::join_columns");
  return op;
}

// qkv: [B, N, 3 D] -> three of [B, H, N, K].
std::vector<at::Tensor> heads_of(const at::Tensor& qkv, int64_t num_heads) {
  return qkv.unflatten(-1, {3, num_heads, -1}).permute({2, 0, 3, 1, 4}).unbind(0);
}

// The graph of the attention within is its own, of q, k and v as leaves: its backward pass gives
// three gradients, where autograd would stack those of three views and lay the result out once
// more.
class SelfAttentionFunction : public torch::autograd::Function<SelfAttentionFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& qkv, int64_t num_heads,
                            double scale, bool has_gradient, bool runs_again) {
    auto parts = heads_of(qkv.detach(), num_heads);
    const at::AutoGradMode records(has_gradient);
    if (has_gradient) {
      for (auto& part : parts) part = part.detach().set_requires_grad(true);
    }
    const auto out =
        attention(parts[0], parts[1], parts[2], scale, {}, {}, runs_again);  // [B, H, N, K]
    if (has_gradient) {
      ctx->saved_data["parts"] = parts;
      ctx->saved_data["out"] = out;
    }
    return out.detach().transpose(1, 2).flatten(2);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto out = ctx->saved_data.at("out").toTensor();
    const auto parts = ctx->saved_data.at("parts").toTensorVector();
    const auto dout = gradients[0].unflatten(-1, {out.size(1), out.size(3)}).transpose(1, 2);
    const auto found = torch::autograd::grad({out}, {parts[0], parts[1], parts[2]}, {dout});
    ctx->saved_data.clear();  // what it keeps is not needed while the rest of the pass goes on
    return {join_gradients(found[0], found[1], found[2]), {}, {}, {}, {}};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(fovea, m) {
  m.def("join_columns(Tensor first, Tensor second, Tensor third) -> (Tensor, Tensor)");
}

at::Tensor join_gradients(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv) {
  const auto rows = [](const at::Tensor& x) {
    return x.transpose(1, 2).flatten(2).flatten(0, 1).contiguous();  // [B N, D]
  };
  const int64_t B = dq.size(0), N = dq.size(2);
  const auto first = rows(dq), second = rows(dk), third = rows(dv);
  const bool is_ours = dq.scalar_type() != at::kDouble && has_kernel(join_op(), dq.device());
  if (!is_ours || dq.numel() == 0) {
    return at::stack({first, second, third}, 1).view({B, N, 3 * first.size(1)});
  }
  const auto [joined, sums] = join_op().call(first, second, third);
  const auto result = joined.view({B, N, joined.size(1)});
  hang_row_sums(result, sums);
  return result;
}

at::Tensor gpu_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                              bool runs_again) {
  const bool has_gradient = at::GradMode::is_enabled() && qkv.requires_grad();
  return SelfAttentionFunction::apply(qkv, num_heads, scale, has_gradient, runs_again);
}

}  // namespace fovea::kernels
