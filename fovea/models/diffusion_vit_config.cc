#include "fovea/models/diffusion_vit_config.h"

#include <fmt/format.h>

namespace fovea::models {
namespace {

// The prediction has a value for each pixel of the image and each patch of it.
void check_whole_images(const VitConfig& vit, ConfigIssues& issues) {
  const auto refuse = [&](const char* key, const std::string& found, const char* instead) {
    issues.add(
        fmt::format("encoder.{}", key),
        fmt::format("found {}; the diffusion ViT predicts every pixel of images of one size: "
                    "set {}: {}",
                    found, key, instead));
  };
  if (vit.is_packed()) refuse("patching", vit.patching, "grid, or adaptive");
  if (vit.dynamic_img_size) refuse("dynamic_img_size", "true", "false");
  if (vit.dynamic_img_pad) refuse("dynamic_img_pad", "true", "false");
  if (vit.crop_to_patches) refuse("crop_to_patches", "true", "false");
  if (vit.patch_drop_rate > 0) {
    refuse("patch_drop_rate", fmt::format("{}", vit.patch_drop_rate), "0");
  }
}

}  // namespace

void DiffusionVitConfig::validate(ConfigIssues& issues) const {
  check_whole_images(encoder.vit, issues);
  if (conditioning == "add" && encoder.vit.embed_dim % 2 != 0) {
    issues.add("encoder.embed_dim", {"conditioning"},
               fmt::format("found {}; the time embedding of conditioning: add is made of pairs of "
                           "sine and cosine: use an even width",
                           encoder.vit.embed_dim));
  }
  if (has_adaln() && encoder.vit.init_values) {
    issues.add("encoder.init_values", {"conditioning"},
               fmt::format("found {}; the gates of conditioning: adaln_zero stand where LayerScale "
                           "would: leave init_values out",
                           *encoder.vit.init_values));
  }
  if (has_adaln() && encoder.vit.block_layer != "pre_norm") {
    issues.add(
        "encoder.block_layer", {"conditioning"},
        fmt::format("found {}; the modulation of conditioning: adaln_zero stands behind the "
                    "norms in front of attention and MLP: use pre_norm, or conditioning: add",
                    encoder.vit.block_layer));
  }
  if (linear_decoder) return;
  if (encoder.vit.attn_layer == "diff" && decoder_embed_dim % (2 * decoder_num_heads) != 0) {
    issues.add("decoder_num_heads", {"decoder_embed_dim", "encoder.attn_layer", "linear_decoder"},
               fmt::format("found {} with encoder.attn_layer diff, which halves each head: use "
                           "heads of which twice the number divides decoder_embed_dim {}",
                           decoder_num_heads, decoder_embed_dim));
    return;
  }
  if (decoder_embed_dim % decoder_num_heads != 0) {
    issues.add("decoder_num_heads", {"decoder_embed_dim", "linear_decoder"},
               fmt::format("decoder_num_heads {} does not divide decoder_embed_dim {}; use heads "
                           "that divide it",
                           decoder_num_heads, decoder_embed_dim));
  }
  const auto multiple = static_cast<int64_t>(2 * encoder.vit.img_sides().size());
  if (!encoder.vit.is_adaptive() && decoder_embed_dim % multiple != 0) {
    issues.add("decoder_embed_dim",
               {"encoder.img_size", "encoder.patch_size", "encoder.patching", "linear_decoder"},
               fmt::format("found {}; its position embedding starts as sines and cosines of each "
                           "side: use a multiple of {}",
                           decoder_embed_dim, multiple));
  }
}

}  // namespace fovea::models
