// Options of the diffusion ViT.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fovea/config/fields.h"
#include "fovea/models/encoder_config.h"
#include "fovea/models/size_limits.h"

namespace fovea::models {

struct DiffusionVitConfig {
  static constexpr std::string_view kName = "diffusion_vit";

  EncoderConfig encoder = default_encoder();
  std::string conditioning = "adaln_zero";
  int64_t num_classes = 0;
  double time_drop_rate = 0.5;
  bool linear_decoder = true;
  int64_t decoder_embed_dim = 512;
  int64_t decoder_depth = 8;
  int64_t decoder_num_heads = 16;
  double decoder_mlp_ratio = 4.0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("encoder", self.encoder, "the ViT that sees the noisy image");
    v.field("conditioning", self.conditioning,
            "how time step and class come in: shift, scale and gate in every block, all zero at "
            "the start (adaln_zero, as DiT), or one vector added to every token before the first "
            "block (add, as UCF-VIT)",
            {.choices = {"adaln_zero", "add"}});
    v.field("num_classes", self.num_classes,
            "classes that samples can be asked for; 0: no conditioning on classes",
            {.min = 0, .max = kMaxClasses});
    v.field("time_drop_rate", self.time_drop_rate,
            "dropout in the time embedding of `add`, as UCF-VIT has it; adaln_zero has none",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("linear_decoder", self.linear_decoder,
            "one linear map from tokens to patches; false: a transformer decoder before it");
    v.field("decoder_embed_dim", self.decoder_embed_dim, "token width of the decoder",
            {.min = 1, .max = kMaxWidth});
    v.field("decoder_depth", self.decoder_depth, "blocks of the decoder",
            {.min = 1, .max = kMaxDepth});
    v.field("decoder_num_heads", self.decoder_num_heads, "attention heads of the decoder",
            {.min = 1, .max = kMaxWidth});
    v.field("decoder_mlp_ratio", self.decoder_mlp_ratio,
            "hidden width of the decoder's MLP over decoder_embed_dim",
            {.min = 0, .max = kMaxMlpRatio, .exclusive_min = true});
  }

  void validate(ConfigIssues& issues) const;

  bool has_adaln() const { return conditioning == "adaln_zero"; }

  // No class token, and a position embedding that starts as sines and cosines.
  static EncoderConfig default_encoder() {
    EncoderConfig encoder;
    encoder.vit.class_token = false;
    encoder.vit.pos_embed = "sincos_learn";
    return encoder;
  }
};

}  // namespace fovea::models
