// B batch, C channels, N tokens, D embed_dim.
#include "fovea/models/vit.h"

#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/tokens.h"
#include "fovea/nn/pos_embed.h"

namespace fovea::models {

at::Tensor Vit::forward(const ModelInput& input) const {
  return run([&] { return head_of(input, /*pre_logits=*/false); });
}

// -> [B, num_classes], or [B, F] with pre_logits.
at::Tensor Vit::head_of(const ModelInput& input, bool pre_logits) const {
  if (input.is_packed() && config_.is_packed()) return head_of_packed(input.packed(), pre_logits);
  const auto tokens = embed_tokens(input);
  if (!input.has_patches())
    return forward_head(encode_for_head(drop_patches(tokens), {}), pre_logits);
  const auto mask = token_mask(input.patches());
  return forward_head(encode_for_head(tokens, mask), pre_logits, mask);
}

// The first tokens, where the head sees no others; 0: it sees all.
int64_t Vit::num_read_by_head() const {
  if (config_.distilled) return 2;
  return config_.global_pool == "token" ? 1 : 0;
}

// encode() for forward_head: of those that it reads at least.
at::Tensor Vit::encode_for_head(const at::Tensor& tokens, const at::Tensor& mask) const {
  const auto x = norm_pre_ ? norm_pre_(tokens) : tokens;  // [B, N, D]
  const auto y = blocks_.forward_read(num_read_by_head(), x, mask, at::Tensor());
  return norm_ ? norm_(y) : y;
}

at::Tensor real_patches(const PatchInput& patches) {
  const auto is_real = patches.padding.logical_not().any(1);  // [B, L]
  return is_real.logical_or(is_real.any(1, /*keepdim=*/true).logical_not());
}

at::Tensor Vit::token_mask(const PatchInput& patches) const {
  const auto is_real = real_patches(patches);  // [B, L]
  if (patches.has_padding ? !*patches.has_padding : is_real.all().item<bool>()) return {};
  const auto prefix = at::ones({is_real.size(0), config_.num_prefix_tokens()}, is_real.options());
  return at::cat({prefix, is_real}, 1);  // [B, N]
}

at::Tensor Vit::forward_features(const ModelInput& images) const {
  return encode(drop_patches(embed_tokens(images)));
}

at::Tensor Vit::encode(const at::Tensor& tokens, at::IntArrayRef taps,
                       std::vector<at::Tensor>* tapped, const at::Tensor& mask,
                       const at::Tensor& offsets) const {
  auto x = norm_pre_ ? norm_pre_(tokens) : tokens;  // [B, N, D]
  x = blocks_.forward_tapped(taps, tapped, x, mask, offsets);
  return norm_ ? norm_(x) : x;
}

void Vit::check_images(const at::Tensor& images) const {
  const auto expected = config_.img_sides();
  const bool has_sides = images.dim() == static_cast<int64_t>(expected.size()) + 2;
  if (has_sides && (config_.dynamic_img_size || config_.is_packed() ||
                    images.sizes().slice(2) == at::IntArrayRef(expected))) {
    return;
  }
  fail<ConfigError>(
      "model.img_size is [{}], but images came as [{}]; resize or crop them in the transforms, or "
      "set img_size or dynamic_img_size",
      fmt::join(expected, ", "), fmt::join(images.sizes(), ", "));
}

// Rows of the position embedding that belong to prefix tokens.
int64_t Vit::num_embedded_prefix() const {
  return pos_embed_.defined() && !config_.no_embed_class ? config_.num_prefix_tokens() : 0;
}

at::Tensor Vit::embed_patches(const ModelInput& input) const {
  if (config_.is_adaptive() || input.has_patches()) {
    return embed_adaptive(input.patches(), input.channels);
  }
  const auto [patches, position] = embed_images(input.images(), input.channels);
  return kernels::join_tokens({}, patches, position);
}

at::Tensor Vit::embed_tokens(const ModelInput& input) const {
  if (config_.is_adaptive() || input.has_patches()) return add_prefix(embed_patches(input));
  const auto [patches, position] = embed_images(input.images(), input.channels);
  return join_tokens(patches, position);
}

Vit::EmbeddedImages Vit::embed_images(const at::Tensor& images,
                                      const std::vector<std::string>& channels) const {
  check_images(images);
  return {
      variable_embed_ ? variable_embed_(images, ids_of(images, channels)) : patch_embed_(images),
      position_of(grid_of(images.sizes().slice(2)))};
}

// Of the patches of a grid: [1, N, D]; undefined: they have none.
at::Tensor Vit::position_of(at::IntArrayRef grid) const {
  if (pos_embed_y_.defined()) return nn::factorized_pos_embed(pos_embed_y_, pos_embed_x_, grid);
  if (!pos_embed_.defined()) return {};
  const auto prefix = num_embedded_prefix();
  const auto table = nn::resize_pos_embed(pos_embed_, grid_size_, grid, prefix,
                                          nn::pos_embed_interp_from_name(config_.pos_embed_interp));
  return table.narrow(1, prefix, table.size(1) - prefix);
}

at::Tensor Vit::embed_adaptive(const PatchInput& patches,
                               const std::vector<std::string>& channels) const {
  const auto& shape = patches.tokens.sizes();
  const bool has_channels = shape.size() == 4 && (variable_embed_ || shape[1] == config_.in_chans);
  if (!config_.is_adaptive() || !has_channels || shape[2] != config_.fixed_length) {
    fail<ConfigError>(
        "adaptive patches of shape [{}]; expected [B, {}, {}, values of a patch]: give "
        "data.adaptive_patching and the model the same fixed_length and patch_size, and the model "
        "patching: adaptive",
        fmt::join(shape, ", "), config_.in_chans, config_.fixed_length);
  }
  auto x = variable_embed_ ? variable_embed_(patches.tokens, ids_of(patches.tokens, channels))
                           : adaptive_embed_(patches.tokens);  // [B, L, D]
  const auto kind = x.scalar_type();
  if (adaptive_pos_) {
    x = x + adaptive_pos_(patches.sizes.to(kind), patches.centers.to(kind));
  }
  if (!pos_embed_.defined()) return x;
  return x + pos_embed_.narrow(1, num_embedded_prefix(), x.size(1)).to(kind);
}

// Class and register tokens with their position: [1, prefix, D]; undefined: there are none.
at::Tensor Vit::prefix_rows(c10::ScalarType dtype) const {
  std::vector<at::Tensor> prefix;
  for (const auto& token : {cls_token_, reg_token_, dist_token_}) {
    if (token.defined()) prefix.push_back(token);
  }
  if (prefix.empty()) return {};
  auto rows = at::cat(prefix, 1);
  if (const auto count = num_embedded_prefix(); count > 0) {
    rows = rows + pos_embed_.narrow(1, 0, count);
  }
  return rows.to(dtype);
}

at::Tensor Vit::add_prefix(const at::Tensor& patches) const { return join_tokens(patches, {}); }

// -> [B, prefix + N, D].
at::Tensor Vit::join_tokens(const at::Tensor& patches, const at::Tensor& position) const {
  return drop_positions(
      kernels::join_tokens(prefix_rows(patches.scalar_type()), patches, position));
}

// As in timm, there is no such dropout without a position embedding.
at::Tensor Vit::drop_positions(const at::Tensor& tokens) const {
  const bool has_position = pos_embed_.defined() || pos_embed_y_.defined() || adaptive_pos_;
  return has_position ? dropout(tokens, config_.pos_drop_rate, "pos_drop") : tokens;
}

// Of the patches of a sample, with patch dropout.
int64_t Vit::num_kept(int64_t num_patches) const {
  return std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(num_patches) * (1.0 - config_.patch_drop_rate)));
}

// Patch dropout (Liu et al. 2022): tokens are left out, not zeroed. tokens: [B, N, D] -> [B, kept
// N, D].
at::Tensor Vit::drop_patches(const at::Tensor& tokens) const {
  if (!is_training() || config_.patch_drop_rate == 0.0) return tokens;
  const auto num_prefix = config_.num_prefix_tokens();
  const auto num_patches = tokens.size(1) - num_prefix;
  const auto keep = kernels::patch_keep_indices(drop_key("patch_drop"), num_patches,
                                                num_kept(num_patches), /*ordered=*/false,
                                                tokens.device());  // [B, kept]
  const auto kept = tokens.narrow(1, num_prefix, num_patches)
                        .gather(1, keep.unsqueeze(-1).expand({-1, -1, tokens.size(2)}));
  return num_prefix > 0 ? at::cat({tokens.narrow(1, 0, num_prefix), kept}, 1) : kept;
}

// tokens: [B, N, D] -> [B, D]; [B, N, D] where global_pool is ''. mask: [B, N], see token_mask.
at::Tensor Vit::pool(const at::Tensor& tokens, const at::Tensor& mask) const {
  const auto& kind = config_.global_pool;
  if (kind.empty()) return tokens;
  if (kind == "token") return tokens.select(1, 0);
  const auto first = config_.pool_include_prefix ? 0 : config_.num_prefix_tokens();
  const auto x = tokens.narrow(1, first, tokens.size(1) - first);
  if (mask.defined()) {
    const auto kept = mask.narrow(1, first, tokens.size(1) - first);  // [B, n]
    if (kind == "map") return attn_pool_(x, kept);
    const auto weights = kept.unsqueeze(-1).to(x.scalar_type());  // [B, n, 1]
    const auto mean = (x * weights).sum(1) / weights.sum(1);
    if (kind == "avg") return mean;
    const auto largest = at::amax(
        x.masked_fill(kept.unsqueeze(-1).logical_not(), -std::numeric_limits<float>::infinity()),
        1);
    return kind == "max" ? largest : 0.5 * (largest + mean);
  }
  if (kind == "map") return attn_pool_(x);
  if (kind == "avg") return x.mean(1);
  if (kind == "max") return at::amax(x, 1);
  return 0.5 * (at::amax(x, 1) + x.mean(1));  // avgmax
}

at::Tensor Vit::forward_head(const at::Tensor& tokens, bool pre_logits,
                             const at::Tensor& mask) const {
  if (config_.distilled) {
    const auto cls = dropout(tokens.select(1, 0), config_.drop_rate, "head_drop");
    const auto dist = dropout(tokens.select(1, 1), config_.drop_rate, "head_drop_dist");
    if (pre_logits || !head_) return (cls + dist) / 2;
    return scale_logits((head_(cls) + head_dist_(dist)) / 2);  // [B, num_classes]
  }
  auto x = pool(tokens, mask);  // [B, D]
  if (fc_norm_) x = fc_norm_(x);
  if (pre_logits_) {
    x = at::tanh(pre_logits_(x));  // [B, representation_size]
    record("pre_logits", x);
  }
  return pre_logits || !head_ ? dropout(x, config_.drop_rate, "head_drop") : classify(x);
}

at::Tensor Vit::scale_logits(const at::Tensor& logits) const {
  return config_.logits_scale == 1 ? logits : logits * config_.logits_scale;
}

at::Tensor Vit::classify(const at::Tensor& features) const {
  if (!head_) fail<ConfigError>("the model has no head; set model.num_classes");
  return scale_logits(head_(dropout(features, config_.drop_rate, "head_drop")));
}

int64_t Vit::num_features() const {
  if (config_.global_pool.empty()) return 0;
  return config_.representation_size > 0 ? config_.representation_size : config_.embed_dim;
}

at::Tensor Vit::pooled_features(const ModelInput& input) const {
  if (num_features() == 0) return Model::pooled_features(input);  // which says why not
  return run([&] { return head_of(input, /*pre_logits=*/true); });
}

}  // namespace fovea::models
