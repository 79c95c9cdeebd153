// Pooling by attention from one learned query (the "map" head of SigLIP and big_vision).
#pragma once

#include "fovea/nn/mlp.h"

namespace fovea::nn {

struct AttentionPoolOptions {
  int64_t dim = 0;
  int64_t num_heads = 0;
  double mlp_ratio = 4.0;
  kernels::Activation activation = kernels::Activation::kGelu;
  NormOptions norm = {};
};

// x: [B, N, D] -> [B, D]. Parameters: latent [1, 1, D], q, kv [2D, D], proj, norm, mlp.
// key_mask: see Attention. The probabilities [B, H, 1, N] are recorded as "<path>.probs" when asked
// for by name.
class AttentionPoolImpl : public UnitImpl {
 public:
  AttentionPoolImpl(const AttentionPoolOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {}) const;

 private:
  int64_t head_dim_;
  at::Tensor latent_;
  Linear q_ = nullptr;
  Linear kv_ = nullptr;
  Linear proj_ = nullptr;
  Norm norm_ = nullptr;
  Mlp mlp_ = nullptr;
};
using AttentionPool = UnitHolder<AttentionPoolImpl>;

}  // namespace fovea::nn
