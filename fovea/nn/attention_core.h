// What stands between queries, keys and values and the output projection of self-attention, for the
// modules that have it: one softmax a head, or the difference of two.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/nn/linear.h"
#include "fovea/nn/norm.h"

namespace fovea::nn {

enum class AttentionKind {
  kSoftmax,
  kDifferential,  // Ye et al. 2024, "Differential transformer"
};

// timm's names: "attn" or "diff". Throws ConfigError.
AttentionKind attention_from_name(const std::string& name);
std::vector<std::string> attention_names();

struct AttentionOptions {
  AttentionKind kind = AttentionKind::kSoftmax;
  int64_t dim = 0;
  int64_t num_heads = 0;  // divides dim; differential: into an even head_dim
  bool qkv_bias = true;
  bool proj_bias = true;
  bool qk_norm = false;     // norm over the width of queries and keys
  bool scale_norm = false;  // norm of the heads' outputs before proj
  double scale = 0.0;       // of q k^T; 0: 1 / sqrt(width of queries and keys)
  double attn_drop_rate = 0.0;
  double proj_drop_rate = 0.0;
  NormOptions norm = {};
  int64_t block_index = 0;  // differential: deeper blocks subtract more at step 0
};

// Note [Differential attention]. Queries and keys of a head are two of half its width. What the
// head gives is (softmax(q1 k1^T) - lambda softmax(q2 k2^T)) v, under an RMS norm of its own and
// times 1 - lambda0, with lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) +
// lambda0 and lambda0 = 0.8 - 0.6 exp(-0.3 block_index). The kernels want queries and values of one
// width: queries and keys are filled up with zeros, which changes no product.

// B batch, N tokens, D width, H heads, K head_dim (D = H * K).
//
// Part of a unit, whose parameters, drop layer and recorded tensors its are: q_norm and k_norm;
// differential: sub_norm, lambda_q1, lambda_k1, lambda_q2 and lambda_k2. The probabilities [B, H,
// N, N] are recorded as "<path>.probs" when asked for by name, differential: [B, 2 H, N, N], both
// of a head together, and what acts, [B, H, N, N], as "<path>.difference"; of samples in a row
// those of each.
class AttentionCore {
 public:
  // The owner outlives this.
  AttentionCore(UnitImpl& owner, const AttentionOptions& options);
  AttentionCore(const AttentionCore&) = delete;
  AttentionCore& operator=(const AttentionCore&) = delete;

  // In the places among the owner's own that timm's modules have.
  void register_lambdas(at::Device device);
  void register_query_norms(at::Device device);
  void register_sub_norm(at::Device device);

  // qkv: [B, N, 3 D], q, k and v one after the other and each by head -> [B, N, D]. key_mask: [B,
  // N] bool, see kernels::attention. offsets: [B + 1] int64 on the CPU, for qkv [1, T, 3 D] of B
  // samples one behind another, see kernels::packed_self_attention; without key_mask. num_read: the
  // first tokens, of which alone an output is asked, [B, num_read, D]; 0: of all.
  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& key_mask, const at::Tensor& offsets,
                     int64_t num_read) const;

  // The same for num_read tokens of those that the projection qkv is of, x [B, N, D], where that
  // need not be made: see Note [Keys and values that are not made]. Undefined: it must.
  at::Tensor read(const at::Tensor& x, const Linear& qkv, const at::Tensor& key_mask,
                  const at::Tensor& offsets, int64_t num_read) const;

  int64_t num_heads() const { return options_.num_heads; }
  bool is_differential() const { return options_.kind == AttentionKind::kDifferential; }
  // Softmaxes of a head.
  int64_t maps_per_head() const { return is_differential() ? 2 : 1; }
  // The name in the owner of what says how tokens are mixed.
  const char* recorded_map() const { return is_differential() ? "difference" : "probs"; }

  // Stands in for kernels::attention where not all keys are here, with its arguments but for drops,
  // which then there must not be; set from outside.
  std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, const at::Tensor& key_mask)>
      attention_elsewhere;
  // Set from outside where processes have some tokens each and attend with some heads each: of qkv,
  // and of what the heads give.
  std::function<at::Tensor(const at::Tensor& qkv)> tokens_to_heads;
  std::function<at::Tensor(const at::Tensor& x)> heads_to_tokens;

 private:
  bool is_plain() const;
  bool drops_probabilities() const;
  int64_t heads_of(int64_t features) const;
  at::Tensor attend(const at::Tensor& qkv, const at::Tensor& key_mask, int64_t num_read = 0) const;
  at::Tensor attend_packed(const at::Tensor& qkv, at::IntArrayRef offsets) const;
  at::Tensor attend_maps(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& key_mask) const;
  at::Tensor attend_parts(const at::Tensor& qkv, const at::Tensor& key_mask,
                          int64_t num_asked) const;
  at::Tensor attend_difference(const at::Tensor& qkv, const at::Tensor& key_mask,
                               int64_t num_asked) const;
  at::Tensor difference(const at::Tensor& of_maps) const;
  void record_maps(const at::Tensor& q, const at::Tensor& k, const at::Tensor& key_mask) const;

  UnitImpl& owner_;
  AttentionOptions options_;
  int64_t head_dim_;
  int64_t query_dim_;  // of queries and keys
  double scale_;
  double first_lambda_ = 0;
  std::vector<at::Tensor> lambdas_;  // lambda_q1, lambda_k1, lambda_q2, lambda_k2: [query_dim]
  Norm q_norm_ = nullptr;
  Norm k_norm_ = nullptr;
  Norm sub_norm_ = nullptr;
};

// A unit with one of these, whichever it is.
class HasAttention {
 public:
  virtual ~HasAttention() = default;
  virtual AttentionCore& attention_core() = 0;
  virtual const AttentionCore& attention_core() const = 0;
};

}  // namespace fovea::nn
