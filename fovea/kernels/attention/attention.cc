#include "fovea/kernels/attention/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <limits>
#include <optional>
#include <tuple>

#include "fovea/kernels/attention/attention_choice.h"
#include "fovea/kernels/attention/gpu_attention.h"
#include "fovea/kernels/cpu/one_mkl_thread.h"
#include "fovea/kernels/kernel_paths.h"
#include "fovea/kernels/operators.h"
#include "fovea/kernels/saved_activation.h"

namespace fovea::kernels {

namespace {

// [B, M] -> [B, 1, 1, M], for every head and query.
at::Tensor for_scores(const at::Tensor& key_mask) { return key_mask.unsqueeze(1).unsqueeze(1); }

// libtorch's attention for CPUs, whose products are each one thread's, so that the sums do not
// depend on the number of threads.
class CpuAttentionFunction : public SavingFunction<CpuAttentionFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& mask, double scale) {
    const cpu::OneMklThreadEach one_thread;
    auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
        q, k, v, /*dropout_p=*/0.0, /*is_causal=*/false, mask, scale);
    if (ctx == nullptr) return out;
    ctx->save_for_backward({save_activation(q), save_activation(k), save_activation(v),
                            save_activation(out), log_sum, mask.value_or(at::Tensor())});
    ctx->saved_data["scale"] = scale;
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto read = [&](size_t i) {
      return read_activation(saved[i], gradients[0].scalar_type());
    };
    const cpu::OneMklThreadEach one_thread;
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradients[0], read(0), read(1), read(2), read(3), saved[4], /*dropout_p=*/0.0,
        /*is_causal=*/false, where_defined(saved[5]), ctx->saved_data["scale"].toDouble());
    return {dq, dk, dv, {}, {}};
  }
};

// The shapes of the above for the meta device, where libtorch has none for it. q: [B, H, N, K], v:
// [B, H, M, K] -> [B, H, N, K] laid out as [B, N, H, K], and float32 [B, H, N].
std::tuple<at::Tensor, at::Tensor> cpu_attention_meta(const at::Tensor& q, const at::Tensor&,
                                                      const at::Tensor&, double, bool,
                                                      const std::optional<at::Tensor>&,
                                                      std::optional<double>) {
  const auto kind = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2),
          at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(kind))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> cpu_attention_backward_meta(
    const at::Tensor&, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
    const at::Tensor&, const at::Tensor&, double, bool, const std::optional<at::Tensor>&,
    std::optional<double>) {
  const auto like = [](const at::Tensor& x) {
    return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  };
  return {like(q), like(k), like(v)};
}

// Not float64, in which the export to ONNX traces.
bool is_for_cpu_attention(const at::Tensor& q, const at::Tensor& v) {
  return (q.is_cpu() || q.is_meta()) && q.scalar_type() != at::kDouble && q.numel() > 0 &&
         v.numel() > 0 && q.size(3) == v.size(3);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_scaled_dot_product_flash_attention_for_cpu", cpu_attention_meta);
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", cpu_attention_backward_meta);
}

at::Tensor attention_probabilities(const at::Tensor& q, const at::Tensor& k, double scale,
                                   const at::Tensor& key_mask) {
  const auto kind = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto scores = at::matmul(q * scale, k.transpose(-2, -1));  // [B, H, N, M]
  if (key_mask.defined()) {
    scores = scores.masked_fill(for_scores(key_mask).logical_not(),
                                -std::numeric_limits<double>::infinity());
  }
  return at::softmax(scores, -1, kind);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const std::optional<AttentionDrop>& drop, const at::Tensor& key_mask,
                     bool runs_again) {
  const auto dtype = q.scalar_type();
  const auto [path, is_as_float] = kernel_paths().of(KernelOp::kAttention, dtype);
  if (q.is_cpu() && dtype == at::kBFloat16 && is_as_float) {
    return attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), scale, drop, key_mask)
        .to(at::kBFloat16);
  }
  const bool has_drop = drop && drop->rate > 0.0;
  const bool is_plain = attention_choice() == AttentionChoice::kMath ||
                        (q.is_cpu() && path == KernelPath::kReference);
  if (!has_drop && !is_plain) {
    std::optional<at::Tensor> mask;  // added to the scores
    if (key_mask.defined()) {
      const auto shown = for_scores(key_mask);
      mask = at::zeros(shown.sizes(), q.options())
                 .masked_fill_(shown.logical_not(), -std::numeric_limits<double>::infinity())
                 .expand({-1, -1, q.size(2), -1});
    }
    if (is_for_cpu_attention(q, v)) return CpuAttentionFunction::apply(q, k, v, mask, scale);
    if (q.is_cuda()) return gpu_attention(q, k, v, mask, scale, runs_again);
    return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0,
                                            /*is_causal=*/false, scale);
  }
  auto probabilities = attention_probabilities(q, k, scale, key_mask);
  if (has_drop) probabilities = dropout(probabilities, drop->rate, drop->key);
  return at::matmul(probabilities.to(v.scalar_type()), v);
}

}  // namespace fovea::kernels
