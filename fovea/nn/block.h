// The transformer blocks of vision transformers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/nn/attention.h"
#include "fovea/nn/layer_scale.h"
#include "fovea/nn/mlp.h"
#include "fovea/nn/stochastic_depth.h"

namespace fovea::nn {

enum class BlockKind {
  kPreNorm,          // timm's Block
  kResPostNorm,      // timm's ResPostBlock: norms behind the branches (Liu et al. 2022, Swin V2)
  kParallelThings,   // timm's ParallelThingsBlock (Touvron et al. 2022, "Three things ...")
  kParallelScaling,  // timm's ParallelScalingBlock, and with differential attention its
                     // DiffParallelScalingBlock (Dehghani et al. 2023, ViT-22B)
};

// "pre_norm", "res_post_norm", "parallel_things" or "parallel_scaling". Throws ConfigError.
BlockKind block_from_name(const std::string& name);
std::vector<std::string> block_names();

struct BlockOptions {
  BlockKind kind = BlockKind::kPreNorm;
  AttentionOptions attention;
  MlpOptions mlp;
  NormOptions norm = {};
  bool has_layer_scale = false;  // none in kResPostNorm, whose norms start at its value
  int64_t num_parallel = 2;      // kParallelThings: attentions side by side, and MLPs
  double drop_path_rate = 0.0;
  bool drop_path_skip = false;  // see DropPath
};

// x: [B, N, D] -> [B, N, D]. key_mask, offsets: see AttentionCore. num_read: how many tokens, the
// first ones, are read of the output, which may then be of those alone, [B, num_read, D]; 0: all.
class TransformerBlockImpl : public UnitImpl {
 public:
  virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                             const at::Tensor& offsets = {}, int64_t num_read = 0) const = 0;
};
using TransformerBlock = UnitHolder<TransformerBlockImpl>;

// Of the options' kind.
TransformerBlock make_block(const BlockOptions& options, at::Device device);

// x += drop_path(ls1(attn(norm1(x)))), then the same with norm2, mlp, ls2. Norms behind the
// branches: x += drop_path(norm1(attn(x))) and so on.
class BlockImpl : public TransformerBlockImpl {
 public:
  BlockImpl(const BlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& offsets = {}, int64_t num_read = 0) const override;

 private:
  at::Tensor attended(const std::vector<at::Tensor>& in, const at::Tensor& starts,
                      const at::Tensor& residual, int64_t num_read) const;
  at::Tensor fed_forward(const at::Tensor& x, const at::Tensor& residual) const;

  bool is_post_norm_;
  DropPath drop_path_;
  Norm norm1_ = nullptr;
  Attention attn_ = nullptr;
  LayerScale ls1_ = nullptr;
  Norm norm2_ = nullptr;
  Mlp mlp_ = nullptr;
  LayerScale ls2_ = nullptr;
};
using Block = UnitHolder<BlockImpl>;

// x += the sum of drop_path(ls(attn(norm(x)))) over attns.0, attns.1 ..., then the same with mlp
// over ffns.
class ParallelThingsBlockImpl : public TransformerBlockImpl {
 public:
  ParallelThingsBlockImpl(const BlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& offsets = {}, int64_t num_read = 0) const override;

 private:
  struct Branch {
    std::string drop_name;  // "attns.0.drop_path"
    Norm norm = nullptr;
    Attention attn = nullptr;  // or
    Mlp mlp = nullptr;
    LayerScale ls = nullptr;
  };
  Branch register_branch(torch::nn::Module& list, const std::string& list_name, int64_t index,
                         const BlockOptions& options, at::Device device);

  DropPath drop_path_;
  std::vector<Branch> attns_, ffns_;
};
using ParallelThingsBlock = UnitHolder<ParallelThingsBlockImpl>;

// x += drop_path(ls(attention and MLP of norm(x), next to each other)): one product in front, whose
// rows are the MLP's hidden features, then q, k and v, and behind them one of each, or with
// differential attention one of both. Parameters: in_norm, in_proj, those of AttentionCore, ls;
// attn_out_proj and mlp_out_proj, or out_proj; without a bias of q, k and v mlp_bias.
class ParallelScalingBlockImpl : public TransformerBlockImpl, public HasAttention {
 public:
  ParallelScalingBlockImpl(const BlockOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x, const at::Tensor& key_mask = {},
                     const at::Tensor& offsets = {}, int64_t num_read = 0) const override;
  AttentionCore& attention_core() override { return core_; }
  const AttentionCore& attention_core() const override { return core_; }

 private:
  at::Tensor branch(const at::Tensor& x, const at::Tensor& key_mask, const at::Tensor& starts,
                    const at::Tensor& residual) const;
  at::Tensor activated(const at::Tensor& hidden) const;
  at::Tensor mlp_out(const at::Tensor& hidden, const at::Tensor& residual) const;

  AttentionCore core_;
  MlpOptions mlp_;
  DropPath drop_path_;
  at::Tensor mlp_bias_;  // [hidden features]
  Norm in_norm_ = nullptr;
  Linear in_proj_ = nullptr;
  Linear attn_out_proj_ = nullptr;
  Linear mlp_out_proj_ = nullptr;
  Linear out_proj_ = nullptr;
  LayerScale ls_ = nullptr;
};
using ParallelScalingBlock = UnitHolder<ParallelScalingBlockImpl>;

}  // namespace fovea::nn
