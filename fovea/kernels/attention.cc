#include "fovea/kernels/attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include "fovea/kernels/bfloat16.h"

namespace fovea::kernels {

at::Tensor attention_probabilities(const at::Tensor& q, const at::Tensor& k, double scale) {
  const auto kind = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::softmax(at::matmul(q * scale, k.transpose(-2, -1)), -1, kind);  // [B, H, N, M]
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const std::optional<AttentionDrop>& drop) {
  if (q.is_meta()) {
    return at::empty({q.size(0), q.size(1), q.size(2), v.size(3)}, q.options());
  }
  if (is_multiplied_as_float(q)) {
    return attention(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat), scale, drop)
        .to(at::kBFloat16);
  }
  if (!drop || drop->rate == 0.0) {
    return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                            /*is_causal=*/false, scale);
  }
  const auto probabilities = attention_probabilities(q, k, scale);
  return at::matmul(dropout(probabilities, drop->rate, drop->key).to(v.scalar_type()), v);
}

}  // namespace fovea::kernels
