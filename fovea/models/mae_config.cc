#include "fovea/models/mae_config.h"

#include <fmt/format.h>

namespace fovea::models {
namespace {

// Patches of an image of encoder.img_size; 0 where the sizes do not fit (reported elsewhere).
int64_t num_patches_of(const VitConfig& encoder) {
  if (encoder.is_adaptive()) return encoder.fixed_length;
  const auto sides = encoder.img_sides(), patch = encoder.patch_sides();
  int64_t count = sides.size() == patch.size() ? 1 : 0;
  for (size_t i = 0; count > 0 && i < sides.size(); ++i) {
    count = patch[i] > 0 && sides[i] % patch[i] == 0 ? count * (sides[i] / patch[i]) : 0;
  }
  return count;
}

void check_mae_encoder(const VitConfig& encoder, ConfigIssues& issues) {
  if (encoder.patch_drop_rate > 0) {
    issues.add("encoder.patch_drop_rate",
               fmt::format("patch_drop_rate {} beside the masks of MAE, which drop patches "
                           "themselves; use 0, and mask_ratio",
                           encoder.patch_drop_rate));
  }
  if (encoder.dynamic_img_pad || encoder.crop_to_patches) {
    issues.add(encoder.dynamic_img_pad ? "encoder.dynamic_img_pad" : "encoder.crop_to_patches",
               "MAE predicts whole patches of the image itself: found true, expected false; use "
               "an img_size that patch_size divides");
  }
}

void check_mae_decoder(const MaeConfig& config, ConfigIssues& issues) {
  const auto dim = config.decoder_embed_dim;
  if (config.decoder_num_heads > 0 && dim % config.decoder_num_heads != 0) {
    issues.add("decoder_num_heads", {"decoder_embed_dim", "linear_decoder"},
               fmt::format("decoder_num_heads {} does not divide decoder_embed_dim {}; use one "
                           "that does",
                           config.decoder_num_heads, dim));
  } else if (config.encoder.vit.attn_layer == "diff" && config.decoder_num_heads > 0 &&
             dim % (2 * config.decoder_num_heads) != 0) {
    issues.add("decoder_num_heads", {"decoder_embed_dim", "encoder.attn_layer", "linear_decoder"},
               fmt::format("decoder_num_heads {} with encoder.attn_layer diff, which halves each "
                           "head; use heads of which twice the number divides decoder_embed_dim {}",
                           config.decoder_num_heads, dim));
  }
  const bool is_sincos = config.decoder_pos_embed.starts_with("sincos");
  const bool is_adaptive = config.encoder.vit.is_adaptive();
  if (is_adaptive ? is_sincos : config.decoder_pos_embed == "size_and_center") {
    issues.add("decoder_pos_embed", {"encoder.patching", "linear_decoder"},
               fmt::format("decoder_pos_embed {} with encoder.patching {}; use {}",
                           config.decoder_pos_embed, config.encoder.vit.patching,
                           is_adaptive ? "size_and_center or learn" : "sincos or learn"));
  }
  const auto multiple = static_cast<int64_t>(2 * config.encoder.vit.img_sides().size());
  if (is_sincos && dim % multiple != 0) {
    issues.add("decoder_pos_embed",
               {"decoder_embed_dim", "encoder.img_size", "encoder.patch_size", "linear_decoder"},
               fmt::format("decoder_pos_embed {} with decoder_embed_dim {}; expected a width "
                           "divisible by {} (sine and cosine of each side), or learn",
                           config.decoder_pos_embed, dim, multiple));
  }
}

}  // namespace

void MaeConfig::validate(ConfigIssues& issues) const {
  check_mae_encoder(encoder.vit, issues);
  if (!linear_decoder) check_mae_decoder(*this, issues);
  const auto patches = num_patches_of(encoder.vit);
  if (patches == 0) return;
  const auto kept = num_kept(patches);
  if (kept < 1 || kept >= patches) {
    issues.add(
        "mask_ratio",
        {"encoder.img_size", "encoder.patch_size", "encoder.patching", "encoder.fixed_length"},
        fmt::format("mask_ratio {} of {} patches leaves {} to see; expected at least one "
                    "and not all",
                    mask_ratio, patches, kept));
  }
}

int64_t MaeConfig::num_kept(int64_t num_patches) const {
  return static_cast<int64_t>(static_cast<double>(num_patches) * (1.0 - mask_ratio));
}

VitConfig MaeConfig::decoder_vit() const {
  auto vit = encoder.vit;
  vit.embed_dim = decoder_embed_dim;
  vit.depth = decoder_depth;
  vit.num_heads = decoder_num_heads;
  vit.mlp_ratio = decoder_mlp_ratio;
  vit.drop_path_rate = decoder_drop_path_rate;
  return vit;
}

EncoderConfig MaeConfig::default_encoder() {
  EncoderConfig encoder;
  encoder.vit.pos_embed = "sincos";
  encoder.vit.weight_init = "jax";
  return encoder;
}

}  // namespace fovea::models
