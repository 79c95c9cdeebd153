// Channels as variables: a tokeniser and an embedding for each, and cross-attention that makes one
// sequence of the tokens of whatever variables a batch holds (UCF-VIT's use_varemb; ClimaX, Nguyen
// et al. 2023, section 3.1).
#pragma once

#include <optional>
#include <vector>

#include "fovea/nn/adaptive_embed.h"
#include "fovea/nn/patch_embed.h"

namespace fovea::nn {

// B batch, V variables of a batch, L patches, D width, H heads, K = D / H.

// One token of each group of V: a learned query attends to the V tokens that stand at one place.
// x: [B, L, V, D], query: [1, 1, D] -> [B, L, D]. Parameters q [D, D] and kv [2 D, D] without bias,
// proj [D, D] with one. The order of the V tokens does not matter, up to rounding.
class VariableAggregationImpl : public UnitImpl {
 public:
  VariableAggregationImpl(int64_t dim, int64_t num_heads, at::Device device);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& query) const;

 private:
  int64_t head_dim_;
  Linear q_ = nullptr;
  Linear kv_ = nullptr;
  Linear proj_ = nullptr;
};
using VariableAggregation = UnitHolder<VariableAggregationImpl>;

struct VariableEmbedOptions {
  int64_t num_variables = 1;
  int64_t dim = 0;
  int64_t num_heads = 0;      // of the aggregation
  bool is_shared = false;     // one tokeniser for all variables
  bool is_aggregated = true;  // false: a batch holds one variable
};

// Input of V channels, each a variable -> tokens [B, L, D]:
// aggregated(tokeniser_v(channel of v) + var_embed[v]). With one variable in all, or without
// aggregation: tokeniser(channel) + var_embed[v] of a batch of one channel.
//
// Parameters: token_embeds.N of variable N (one, token_embeds.0, where it is shared), var_embed
// [1, num_variables, D], and with aggregation var_query [1, 1, D] and var_agg.
class VariableEmbedImpl : public UnitImpl {
 public:
  // Patches on a grid; grid.in_chans is 1.
  VariableEmbedImpl(const VariableEmbedOptions& options, const PatchEmbedOptions& grid,
                    at::Device device);
  // Adaptive patches of patch_values values each.
  VariableEmbedImpl(const VariableEmbedOptions& options, int64_t patch_values, bool has_norms,
                    at::Device device);

  // input: images [B, V, H, W] or [B, V, D, H, W], or adaptive patches [B, V, L, S]; variables: the
  // variable of each channel, each once. Their order does not matter, bit for bit.
  at::Tensor forward(const at::Tensor& input, at::IntArrayRef variables) const;

  // Tokens along each side; see PatchEmbed.
  std::vector<int64_t> grid_size(at::IntArrayRef img_size) const;

 private:
  void register_embeddings(at::Device device);
  at::Tensor tokenize(int64_t tokenizer, const at::Tensor& channel) const;
  at::Tensor tokens_of(const at::Tensor& input, at::IntArrayRef variables) const;

  VariableEmbedOptions options_;
  std::vector<PatchEmbed> grid_;  // or
  std::vector<AdaptivePatchEmbed> adaptive_;
  at::Tensor var_embed_;
  at::Tensor var_query_;
  VariableAggregation var_agg_ = nullptr;
};
using VariableEmbed = UnitHolder<VariableEmbedImpl>;

// Entries of x along `dim` in this order; x itself where they are all of them in theirs.
at::Tensor take(const at::Tensor& x, int64_t dim, at::IntArrayRef entries);

}  // namespace fovea::nn
