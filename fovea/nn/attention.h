// Multi-head self-attention over tokens.
#pragma once

#include <functional>

#include "fovea/nn/linear.h"
#include "fovea/nn/norm.h"

namespace fovea::nn {

struct AttentionOptions {
  int64_t dim = 0;
  int64_t num_heads = 0;  // divides dim
  bool qkv_bias = true;
  bool proj_bias = true;
  bool qk_norm = false;     // norm over head_dim of queries and keys
  bool scale_norm = false;  // norm of the heads' outputs before proj
  double scale = 0.0;       // of q k^T; 0: 1 / sqrt(head_dim)
  double attn_drop_rate = 0.0;
  double proj_drop_rate = 0.0;
  NormOptions norm = {};
};

// x: [B, N, D] -> [B, N, D]. Parameters: qkv [3D, D] (rows: q, k, v, each by head), q_norm, k_norm,
// norm, proj. key_mask: [B, N] bool, see kernels::attention. offsets: [B + 1] int64 on the CPU, for
// x [1, T, D] of B samples one behind another, see kernels::packed_self_attention; without
// key_mask. The probabilities [B, H, N, N] are recorded as "<path>.probs" when asked for by name;
// of samples in a row those of each. residual: [B, N, D], added to the output; undefined: none.
class AttentionImpl : public UnitImpl {
 public:
  AttentionImpl(const AttentionOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& offsets = {}, const at::Tensor& residual = {});
  int64_t num_heads() const { return options_.num_heads; }

  // Stands in for kernels::attention where not all keys are here, with its arguments but for drops,
  // which then there must not be; set from outside.
  std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, const at::Tensor& key_mask)>
      attention_elsewhere;

 private:
  bool is_plain() const;
  int64_t heads_of(const at::Tensor& qkv) const;
  at::Tensor attend(const at::Tensor& qkv, const at::Tensor& key_mask);
  at::Tensor attend_packed(const at::Tensor& qkv, at::IntArrayRef offsets);

  AttentionOptions options_;
  int64_t head_dim_;
  double scale_;
  Linear qkv_ = nullptr;
  Norm q_norm_ = nullptr;
  Norm k_norm_ = nullptr;
  Norm norm_ = nullptr;
  Linear proj_ = nullptr;
};
TORCH_MODULE(Attention);

}  // namespace fovea::nn
