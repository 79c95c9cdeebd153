// Adaptive layer norm with a zero start (adaLN-Zero; Peebles and Xie 2023, "Scalable diffusion
// models with transformers"): shift, scale and gate of a branch come from a condition, such as the
// time step, and all start at zero, so that a block starts as the identity.
#pragma once

#include "fovea/nn/attention.h"
#include "fovea/nn/mlp.h"
#include "fovea/nn/stochastic_depth.h"

namespace fovea::nn {

// condition: [B, E] -> [count, B, 1, dim]: proj(silu(condition)), cut into `count` vectors.
// Parameters: proj [count dim, E].
class ModulationImpl : public UnitImpl {
 public:
  ModulationImpl(int64_t condition_dim, int64_t dim, int64_t count, at::Device device);

  at::Tensor forward(const at::Tensor& condition) const;
  bool is_one_for_all_tokens() const override { return true; }

 private:
  int64_t count_;
  Linear proj_ = nullptr;
};
using Modulation = UnitHolder<ModulationImpl>;

// x (1 + scale) + shift. x: [B, N, D], shift and scale: [B, 1, D].
at::Tensor modulate(const at::Tensor& x, const at::Tensor& shift, const at::Tensor& scale);

struct ConditionedBlockOptions {
  AttentionOptions attention;
  MlpOptions mlp;
  NormOptions norm = {};  // its weight and bias are those of the modulation: has_affine is ignored
  int64_t condition_dim = 0;
  double drop_path_rate = 0.0;
  bool drop_path_skip = false;  // see DropPath
};

// The pre-norm block under a condition. x: [B, N, D], condition: [B, E] -> [B, N, D]:
//   x += drop_path(gate1 attn(modulate(norm1(x), shift1, scale1))), then the same with norm2, mlp.
// Parameters: attn, mlp, modulation (rows: shift1, scale1, gate1, shift2, scale2, gate2).
class ConditionedBlockImpl : public UnitImpl {
 public:
  ConditionedBlockImpl(const ConditionedBlockOptions& options, at::Device device);

  // key_mask: [B, N] bool, tokens that are attended to; undefined: all.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& condition,
                     const at::Tensor& key_mask = {}) const;

 private:
  DropPath drop_path_;
  Norm norm1_ = nullptr;
  Attention attn_ = nullptr;
  Norm norm2_ = nullptr;
  Mlp mlp_ = nullptr;
  Modulation modulation_ = nullptr;
};
using ConditionedBlock = UnitHolder<ConditionedBlockImpl>;

}  // namespace fovea::nn
