// Names of shapes: see the header.
#include "fovea/kernels/attention/partial_attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>

#include <limits>

#include "fovea/kernels/cpu/one_mkl_thread.h"
#include "fovea/kernels/kernel_paths.h"

namespace fovea::kernels {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

at::ScalarType sum_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// libtorch's kernel for CPUs keeps no [N, M]; attention.cc has its shapes for the meta device.
bool is_for_flash(const at::Tensor& q, const at::Tensor& key_mask) {
  const auto path = kernel_paths().of(KernelOp::kAttention, q.scalar_type()).path;
  const bool is_plain = q.is_cpu() && path == KernelPath::kReference;
  return (q.is_cpu() || q.is_meta()) && !key_mask.defined() && !is_plain;
}

// [B, H, N, M]
at::Tensor scores_of(const at::Tensor& q, const at::Tensor& k, double scale,
                     const at::Tensor& key_mask) {
  const auto scores = at::matmul(q * scale, k.transpose(-2, -1));
  if (!key_mask.defined()) return scores;
  return scores.masked_fill_(key_mask.logical_not().unsqueeze(1).unsqueeze(1), kMinusInfinity);
}

// exp(scores - log_sum), zeros where there is no key.
at::Tensor weights_of(const at::Tensor& scores, const at::Tensor& log_sum) {
  const auto finite = log_sum.masked_fill(log_sum.isneginf(), 0.0);
  return at::exp(scores - finite.unsqueeze(-1));
}

}  // namespace

PartialAttention partial_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   double scale, const at::Tensor& key_mask) {
  if (is_for_flash(q, key_mask)) {
    const cpu::OneMklThreadEach one_thread;
    auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
        q, k, v, /*dropout_p=*/0.0, /*is_causal=*/false, /*attn_mask=*/std::nullopt, scale);
    return {out, log_sum};
  }
  const auto dtype = sum_dtype(q);
  const auto scores = scores_of(q.to(dtype), k.to(dtype), scale, key_mask);
  const auto log_sum = at::logsumexp(scores, -1);
  return {at::matmul(weights_of(scores, log_sum), v.to(dtype)).to(q.scalar_type()), log_sum};
}

// With p = exp(scores - log_sum): dv = p^T dout, ds = p (dout v^T - sum(dout out)), dq = ds k
// scale, dk = ds^T q scale (Dao et al. 2022, "FlashAttention", appendix B.2).
AttentionGradients partial_attention_backward(const at::Tensor& gradient, const at::Tensor& q,
                                              const at::Tensor& k, const at::Tensor& v,
                                              const at::Tensor& out, const at::Tensor& log_sum,
                                              double scale, const at::Tensor& key_mask) {
  if (is_for_flash(q, key_mask)) {
    const cpu::OneMklThreadEach one_thread;
    auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, q, k, v, out, log_sum, /*dropout_p=*/0.0, /*is_causal=*/false,
        /*attn_mask=*/std::nullopt, scale);
    return {dq, dk, dv};
  }
  const auto dtype = sum_dtype(q);
  const auto keys = k.to(dtype), dout = gradient.to(dtype);
  const auto p = weights_of(scores_of(q.to(dtype), keys, scale, key_mask), log_sum);
  const auto inner = (dout * out.to(dtype)).sum(-1, /*keepdim=*/true);
  const auto ds = p * (at::matmul(dout, v.to(dtype).transpose(-2, -1)) - inner) * scale;
  const auto back = [](const at::Tensor& x, const at::Tensor& like) {
    return x.to(like.scalar_type());
  };
  return {back(at::matmul(ds, keys), q), back(at::matmul(ds.transpose(-2, -1), q.to(dtype)), k),
          back(at::matmul(p.transpose(-2, -1), dout), v)};
}

}  // namespace fovea::kernels
