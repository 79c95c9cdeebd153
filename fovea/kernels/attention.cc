#include "fovea/kernels/attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "fovea/kernels/bfloat16.h"

namespace fovea::kernels {

namespace {

// [B, M] -> [B, 1, 1, M], for every head and query.
at::Tensor for_scores(const at::Tensor& key_mask) { return key_mask.unsqueeze(1).unsqueeze(1); }

}  // namespace

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
                     const std::optional<AttentionDrop>& drop, const at::Tensor& key_mask) {
  if (q.is_meta()) {
    return at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  }
  if (is_multiplied_as_float(q)) {
    return attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), scale, drop, key_mask)
        .to(at::kBFloat16);
  }
  if (!drop || drop->rate == 0.0) {
    std::optional<at::Tensor> mask;
    if (key_mask.defined()) mask = for_scores(key_mask).expand({-1, -1, q.size(2), -1});
    return at::scaled_dot_product_attention(q, k, v, mask, /*dropout_p=*/0.0,
                                            /*is_causal=*/false, scale);
  }
  const auto probabilities = attention_probabilities(q, k, scale, key_mask);
  return at::matmul(dropout(probabilities, drop->rate, drop->key).to(v.scalar_type()), v);
}

}  // namespace fovea::kernels
