// B batch, N tokens, D width, H heads, K head_dim (D = H * K).
#include "fovea/nn/attention_core.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>

#include <cmath>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/kernels/attention/read_attention.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {
namespace {

constexpr double kSubNormEps = 1e-5;

bool runs_again() { return forward_context().runs_again; }

// The first num_asked queries, 0: all. q: [B, H, N, K].
at::Tensor asked(const at::Tensor& q, int64_t num_asked) {
  return num_asked > 0 ? q.narrow(2, 0, num_asked) : q;
}

}  // namespace

AttentionKind attention_from_name(const std::string& name) {
  if (name == "attn") return AttentionKind::kSoftmax;
  if (name == "diff") return AttentionKind::kDifferential;
  fail<ConfigError>("attention '{}' is unknown; expected attn or diff", name);
}

std::vector<std::string> attention_names() { return {"attn", "diff"}; }

AttentionCore::AttentionCore(UnitImpl& owner, const AttentionOptions& options)
    : owner_(owner), options_(options) {
  const auto maps = maps_per_head();
  FOVEA_CHECK(options.num_heads > 0 && options.dim % (maps * options.num_heads) == 0,
              "attention of width {} with {} heads{}; expected a width divisible by {}",
              options.dim, options.num_heads, maps == 1 ? "" : " of two maps",
              maps == 1 ? "the heads" : "twice the heads");
  head_dim_ = options.dim / options.num_heads;
  query_dim_ = head_dim_ / maps;
  scale_ = options.scale > 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(query_dim_));
  owner_.declare_drop("attn_drop", DropOf::kHeads);
  first_lambda_ = 0.8 - 0.6 * std::exp(-0.3 * static_cast<double>(options.block_index));
}

void AttentionCore::register_lambdas(at::Device device) {
  if (!is_differential()) return;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  for (const auto* name : {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"}) {
    lambdas_.push_back(owner_.register_parameter(name, at::empty({query_dim_}, options)));
  }
}

void AttentionCore::register_query_norms(at::Device device) {
  if (!options_.qk_norm) return;
  q_norm_ = owner_.register_module("q_norm", Norm(query_dim_, options_.norm, device));
  k_norm_ = owner_.register_module("k_norm", Norm(query_dim_, options_.norm, device));
}

void AttentionCore::register_sub_norm(at::Device device) {
  if (!is_differential()) return;
  const NormOptions norm{NormKind::kRmsNorm, kSubNormEps};
  sub_norm_ = owner_.register_module("sub_norm", Norm(head_dim_, norm, device));
}

at::Tensor AttentionCore::forward(const at::Tensor& qkv, const at::Tensor& key_mask,
                                  const at::Tensor& offsets, int64_t num_read) const {
  FOVEA_CHECK(!offsets.defined() || !key_mask.defined(), "{}: samples in a row and a mask",
              owner_.path());
  const auto given = tokens_to_heads ? tokens_to_heads(qkv) : qkv;
  const auto y = offsets.defined() ? attend_packed(given, {offsets.const_data_ptr<int64_t>(),
                                                           static_cast<size_t>(offsets.numel())})
                                   : attend(given, key_mask, num_read);
  return heads_to_tokens ? heads_to_tokens(y) : y;  // [B, N or num_read, D]
}

at::Tensor AttentionCore::read(const at::Tensor& x, const Linear& qkv, const at::Tensor& key_mask,
                               const at::Tensor& offsets, int64_t num_read) const {
  const bool is_all_here = !tokens_to_heads && !heads_to_tokens && !key_mask.defined() &&
                           !offsets.defined() && qkv->is_plain();
  if (num_read == 0 || !is_all_here || !is_plain()) return {};
  const auto num_heads = heads_of(qkv->weight.size(0));
  if (!kernels::takes_read_attention(x, qkv->weight, qkv->bias, num_heads, num_read)) return {};
  return kernels::read_attention(x, qkv->weight, qkv->bias, num_heads, scale_, num_read);
}

// Whether q, k and v go into the kernel as they are, and nothing happens to the probabilities.
bool AttentionCore::is_plain() const {
  return !is_differential() && !q_norm_ && !drops_probabilities() &&
         !is_recording(owner_.path() + ".probs") && !attention_elsewhere;
}

bool AttentionCore::drops_probabilities() const {
  return owner_.is_training() && options_.attn_drop_rate > 0;
}

// How many of them are here.
int64_t AttentionCore::heads_of(int64_t features) const {
  FOVEA_CHECK(features % (3 * head_dim_) == 0,
              "{}: {} features of queries, keys and values; expected whole heads of {}",
              owner_.path(), features, head_dim_);
  return features / (3 * head_dim_);
}

// qkv: [1, T, 3 D] -> [1, T, D].
at::Tensor AttentionCore::attend_packed(const at::Tensor& qkv, at::IntArrayRef offsets) const {
  FOVEA_CHECK(!attention_elsewhere, "{}: samples in a row whose tokens are on several ranks",
              owner_.path());
  if (is_plain())
    return kernels::packed_self_attention(qkv, heads_of(qkv.size(-1)), scale_, offsets,
                                          runs_again());
  const auto step = forward_context().step;
  std::vector<at::Tensor> outs;
  std::vector<int64_t> lengths;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) lengths.push_back(offsets[b + 1] - offsets[b]);
  for (const auto& one : qkv.split_with_sizes(lengths, 1)) {
    std::optional<StepScope> row;
    const auto b = static_cast<int64_t>(outs.size());
    if (step) row.emplace(step->seed, step->step, step->rows.narrow(0, b, 1));
    outs.push_back(attend(one, {}));  // [1, N, D]
  }
  return at::cat(outs, 1);
}

// qkv: [B, N, 3 D] -> [B, N, D], or of num_read tokens alone.
at::Tensor AttentionCore::attend(const at::Tensor& qkv, const at::Tensor& key_mask,
                                 int64_t num_read) const {
  const auto num_heads = heads_of(qkv.size(-1));
  if (is_plain() && !key_mask.defined())
    return kernels::self_attention(qkv, num_heads, scale_, runs_again(), num_read);
  // Drop masks are drawn for all queries.
  const int64_t num_asked = drops_probabilities() ? 0 : num_read;
  const auto y = is_differential() ? attend_difference(qkv, key_mask, num_asked)
                                   : attend_parts(qkv, key_mask, num_asked);
  return num_read > 0 ? y.narrow(1, 0, num_read) : y;
}

// Of queries, keys and values by themselves. qkv: [B, N, 3 D] -> [B, N, D], or of num_asked tokens.
at::Tensor AttentionCore::attend_parts(const at::Tensor& qkv, const at::Tensor& key_mask,
                                       int64_t num_asked) const {
  const auto parts = qkv.unflatten(-1, {3, -1, head_dim_})  // [B, N, 3, H, K]
                         .permute({2, 0, 3, 1, 4})          // [3, B, H, N, K]
                         .unbind(0);  // one gradient of all three, where parts[i] has three
  const auto q = q_norm_ ? q_norm_(parts[0]) : parts[0];
  const auto k = k_norm_ ? k_norm_(parts[1]) : parts[1];
  record_maps(q, k, key_mask);
  return attend_maps(asked(q, num_asked), k, parts[2], key_mask).transpose(1, 2).flatten(2);
}

// Every map by itself. q, k, v: [B, maps, N, K] -> [B, maps, N, K].
at::Tensor AttentionCore::attend_maps(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const at::Tensor& key_mask) const {
  const bool drops = drops_probabilities();
  if (attention_elsewhere) {
    FOVEA_CHECK(!drops && !is_recording(owner_.path() + ".probs"),
                "{}: probabilities whose keys are on several ranks", owner_.path());
    return attention_elsewhere(q, k, v, scale_, key_mask);
  }
  std::optional<kernels::AttentionDrop> drop;
  if (drops) drop = kernels::AttentionDrop{options_.attn_drop_rate, owner_.drop_key("attn_drop")};
  return kernels::attention(q, k, v, scale_, drop, key_mask, runs_again());
}

// See Note [Differential attention]. qkv: [B, N, 3 D] -> [B, N, D].
at::Tensor AttentionCore::attend_difference(const at::Tensor& qkv, const at::Tensor& key_mask,
                                            int64_t num_asked) const {
  const auto parts = qkv.unflatten(-1, {3, -1, query_dim_})  // [B, N, 3, 2 H, K / 2]
                         .permute({2, 0, 3, 1, 4})           // [3, B, 2 H, N, K / 2]
                         .unbind(0);
  const auto q = q_norm_ ? q_norm_(parts[0]) : parts[0];
  const auto k = k_norm_ ? k_norm_(parts[1]) : parts[1];
  record_maps(q, k, key_mask);
  const auto v = parts[2]
                     .unflatten(1, {-1, 2})  // [B, H, 2, N, K / 2]
                     .transpose(2, 3)
                     .flatten(3)  // [B, H, N, K]
                     .unsqueeze(2)
                     .expand({-1, -1, 2, -1, -1})
                     .flatten(1, 2);  // [B, 2 H, N, K]
  const auto widened = [&](const at::Tensor& x) {
    return at::constant_pad_nd(x, {0, head_dim_ - query_dim_});
  };
  const auto maps = attend_maps(widened(asked(q, num_asked)), widened(k), v, key_mask);
  const auto heads = difference(maps);  // [B, H, N, K]
  return (sub_norm_(heads) * (1 - first_lambda_)).transpose(1, 2).flatten(2);
}

// The first map of each head less lambda times the second. [B, 2 H, ...] -> [B, H, ...].
at::Tensor AttentionCore::difference(const at::Tensor& of_maps) const {
  const auto product = [&](size_t pair) {
    return at::exp((lambdas_[pair] * lambdas_[pair + 1]).sum());
  };
  const auto lambda = (product(0) - product(2) + first_lambda_).to(of_maps.scalar_type());
  const auto maps = of_maps.unflatten(1, {-1, 2}).unbind(2);
  return maps[0] - lambda * maps[1];
}

void AttentionCore::record_maps(const at::Tensor& q, const at::Tensor& k,
                                const at::Tensor& key_mask) const {
  const bool shows_maps = is_recording(owner_.path() + ".probs");
  const bool shows_difference =
      is_differential() && is_recording(owner_.path() + "." + recorded_map());
  if (!shows_maps && !shows_difference) return;
  FOVEA_CHECK(!attention_elsewhere, "{}: probabilities whose keys are on several ranks",
              owner_.path());
  const auto maps = kernels::attention_probabilities(q, k, scale_, key_mask);
  if (shows_maps) owner_.record("probs", maps);
  if (shows_difference) owner_.record(recorded_map(), difference(maps));
}

}  // namespace fovea::nn
