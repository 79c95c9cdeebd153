// The tokens-to-token module of T2T-ViT (Yuan et al., "Tokens-to-token ViT: training vision
// transformers from scratch on ImageNet", ICCV 2021): overlapping windows become tokens, attention
// mixes them, and what comes out is taken for an image again.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "fovea/nn/linear.h"
#include "fovea/nn/mlp.h"
#include "fovea/nn/norm.h"

// B batch, C channels, N tokens, E width of the tokens that come in, T token_dim, M random
// features.
namespace fovea::nn {

// Windows of `kernel` pixels a side, `stride` apart, over an image with `padding` zeros around it.
struct SoftSplit {
  int64_t kernel = 3;
  int64_t stride = 2;
  int64_t padding = 1;

  int64_t num_windows(int64_t side) const {
    return side + 2 * padding < kernel ? 0 : (side + 2 * padding - kernel) / stride + 1;
  }
};

// images: [B, C, H, W] -> [B, N, C * kernel^2], windows row by row, features by channel, then row,
// then column: torch.nn.Unfold, transposed.
at::Tensor soft_split(const at::Tensor& images, const SoftSplit& split);

enum class TokenAttentionKind { kPerformer, kTransformer };

// "performer" or "transformer". Throws ConfigError.
TokenAttentionKind token_attention_from_name(const std::string& name);

struct TokenAttentionOptions {
  int64_t in_dim = 0;      // E
  int64_t token_dim = 64;  // T
  double drop_rate = 0.0;  // after projections
  double norm_eps = 1e-5;
};

// Softmax attention with one head, in which the values stand in for the residual, since E is not T.
// x: [B, N, E] -> [B, N, T]. Parameters: qkv [3T, E] without bias, proj.
class TokenSoftmaxAttentionImpl : public UnitImpl {
 public:
  TokenSoftmaxAttentionImpl(const TokenAttentionOptions& options, at::Device device);

  at::Tensor forward(const kernels::LinearInput& x) const;

 private:
  TokenAttentionOptions options_;
  Linear qkv_ = nullptr;
  Linear proj_ = nullptr;
};
using TokenSoftmaxAttention = UnitHolder<TokenSoftmaxAttentionImpl>;

// x: [B, N, E] -> [B, N, T]: y = attn(norm1(x)), then y + mlp(norm2(y)).
class TokenTransformerImpl : public UnitImpl {
 public:
  TokenTransformerImpl(const TokenAttentionOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;

 private:
  Norm norm1_ = nullptr;
  TokenSoftmaxAttention attn_ = nullptr;
  Norm norm2_ = nullptr;
  Mlp mlp_ = nullptr;
};
using TokenTransformer = UnitHolder<TokenTransformerImpl>;

// The same with attention in time linear in N (Choromanski et al., "Rethinking attention with
// performers", ICLR 2021): exp(q k) is estimated by M = T / 2 positive random features of either.
// Their directions `w` [M, T] are drawn once, saved with the weights and never trained. Sums and
// features are float32 at least.
class TokenPerformerImpl : public UnitImpl {
 public:
  TokenPerformerImpl(const TokenAttentionOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& x) const;
  int64_t num_features() const { return w_.size(0); }

 private:
  at::Tensor features(const at::Tensor& x) const;
  at::Tensor attend(const kernels::LinearInput& x) const;
  at::Tensor mix(const kernels::LinearInput& x) const;

  TokenAttentionOptions options_;
  at::Tensor w_;  // [M, T]
  Linear kqv_ = nullptr;
  Linear proj_ = nullptr;
  Norm norm1_ = nullptr;
  Norm norm2_ = nullptr;
  Linear fc1_ = nullptr;  // mlp.0
  Linear fc2_ = nullptr;  // mlp.2
};
using TokenPerformer = UnitHolder<TokenPerformerImpl>;

// The start value of a performer's `w`: orthogonal rows of length sqrt(M), a function of (seed,
// name) alone. -> [num_features, dim] float32 on the CPU; num_features <= dim.
at::Tensor orthogonal_features(int64_t num_features, int64_t dim, const std::string& name,
                               uint64_t seed);

struct TokensToTokenOptions {
  TokenAttentionKind attention = TokenAttentionKind::kPerformer;
  int64_t in_chans = 3;
  int64_t token_dim = 64;
  int64_t dim = 0;  // of the tokens that come out, D
  std::array<SoftSplit, 3> splits = {SoftSplit{7, 4, 2}, SoftSplit{3, 2, 1}, SoftSplit{3, 2, 1}};
  double drop_rate = 0.0;
  double norm_eps = 1e-5;
};

// images: [B, C, H, W] -> [B, N, D], N by grid_size(). Parameters: attention1, attention2, project.
class TokensToTokenImpl : public UnitImpl {
 public:
  TokensToTokenImpl(const TokensToTokenOptions& options, at::Device device);

  at::Tensor forward(const at::Tensor& images) const;

  // Tokens along each side of an image with sides [H, W].
  std::vector<int64_t> grid_size(at::IntArrayRef img_size) const;

 private:
  at::Tensor attend(size_t i, const at::Tensor& tokens) const;

  TokensToTokenOptions options_;
  std::vector<TokenPerformer> performers_;      // two, or none
  std::vector<TokenTransformer> transformers_;  // two, or none
  Linear project_ = nullptr;
};
using TokensToToken = UnitHolder<TokensToTokenImpl>;

}  // namespace fovea::nn
