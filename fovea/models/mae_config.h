// Options of the masked autoencoder (see mae.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fovea/models/encoder_config.h"
#include "fovea/models/size_limits.h"

namespace fovea::models {

struct MaeConfig {
  static constexpr std::string_view kName = "mae";

  EncoderConfig encoder = default_encoder();
  double mask_ratio = 0.75;
  bool linear_decoder = false;
  int64_t decoder_embed_dim = 512;
  int64_t decoder_depth = 8;
  int64_t decoder_num_heads = 16;
  double decoder_mlp_ratio = 4.0;
  double decoder_drop_path_rate = 0.0;
  std::string decoder_pos_embed = "sincos";
  double decoder_norm_eps = 1e-6;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("encoder", self.encoder, "the ViT that sees the patches that are not masked");
    v.field("mask_ratio", self.mask_ratio, "share of the patches that is masked",
            {.min = 0, .max = 1, .exclusive_min = true, .exclusive_max = true});
    v.field(
        "linear_decoder", self.linear_decoder,
        "one linear map from tokens to pixels (as UCF-VIT has it, for task.loss_on: all); false: "
        "a transformer, and the other keys of the decoder count");
    v.field("decoder_embed_dim", self.decoder_embed_dim, "token width of the decoder",
            {.min = 1, .max = kMaxWidth});
    v.field("decoder_depth", self.decoder_depth, "blocks of the decoder",
            {.min = 1, .max = kMaxDepth});
    v.field("decoder_num_heads", self.decoder_num_heads,
            "attention heads of the decoder; must divide decoder_embed_dim",
            {.min = 1, .max = kMaxWidth});
    v.field("decoder_mlp_ratio", self.decoder_mlp_ratio,
            "hidden width of the decoder's MLP over decoder_embed_dim",
            {.min = 0, .max = kMaxMlpRatio, .exclusive_min = true});
    v.field("decoder_drop_path_rate", self.decoder_drop_path_rate,
            "stochastic depth of the decoder's last block; earlier ones scale linearly",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("decoder_pos_embed", self.decoder_pos_embed,
            "position embedding of the decoder: fixed sin-cos, learned from a sin-cos start, "
            "learned, or of adaptive patches a learned function of size and centre",
            {.choices = {"sincos", "sincos_learn", "learn", "size_and_center"}});
    v.field("decoder_norm_eps", self.decoder_norm_eps,
            "epsilon of the norm behind the decoder's blocks; theirs is encoder.norm_eps",
            {.min = 0, .exclusive_min = true});
  }

  void validate(ConfigIssues& issues) const;

  // Patches that the encoder sees of num_patches: floor(num_patches (1 - mask_ratio)), as
  // published.
  int64_t num_kept(int64_t num_patches) const;

  // The decoder's blocks as those of a ViT: the encoder's options in the decoder's sizes.
  VitConfig decoder_vit() const;

  // Fixed sin-cos positions and weights that start Xavier uniform, as published.
  static EncoderConfig default_encoder();
};

}  // namespace fovea::models
