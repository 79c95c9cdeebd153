// Models with each option that has parameters or drops of its own, for tests of what is shared out
// over processes. Widths and heads divide by 4, numbers of tokens do not divide by 2.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fovea/models/model_config.h"

namespace fovea::train::testing {

struct SharedModel {
  const char* name;
  models::ModelConfig model;
};

inline models::VitConfig shared_vit(const std::function<void(models::VitConfig&)>& change) {
  models::VitConfig vit;
  vit.img_size = {8};
  vit.patch_size = {4};
  vit.in_chans = 2;
  vit.num_classes = 4;
  vit.embed_dim = 32;
  vit.depth = 2;
  vit.num_heads = 4;
  vit.mlp_ratio = 2;
  vit.proj_drop_rate = 0.1;
  vit.attn_drop_rate = 0.2;
  vit.drop_path_rate = 0.1;
  vit.pos_drop_rate = 0.1;
  change(vit);
  return vit;
}

// attn_drop_rate: a ring of processes has none.
inline std::vector<SharedModel> vits_of_every_option(double attn_drop_rate = 0.2) {
  using Vit = models::VitConfig;
  const auto vit_of = [=](const std::function<void(Vit&)>& change) {
    auto vit = shared_vit(change);
    vit.attn_drop_rate = attn_drop_rate;
    return vit;
  };
  const auto of = [=](const std::function<void(Vit&)>& change) {
    return models::ModelConfig{vit_of(change)};
  };
  models::DiffusionVitConfig denoiser;
  denoiser.encoder.vit = models::EncoderConfig::headless(vit_of([](Vit&) {}));
  denoiser.conditioning = "adaln_zero";
  denoiser.num_classes = 3;
  denoiser.linear_decoder = false;
  denoiser.decoder_embed_dim = 16;
  denoiser.decoder_depth = 2;
  denoiser.decoder_num_heads = 4;
  auto added = denoiser;
  added.conditioning = "add";
  return {
      {"plain", of([](Vit&) {})},
      {"qk_norm", of([](Vit& vit) {
         vit.qk_norm = true;
         vit.qkv_bias = false;
         vit.init_values = 0.1;
       })},
      {"scale_norms", of([](Vit& vit) {
         vit.scale_attn_norm = true;
         vit.scale_mlp_norm = true;
         vit.norm_layer = "rms_norm";
       })},
      {"swiglu", of([](Vit& vit) {
         vit.mlp_layer = "swiglu";
         vit.scale_mlp_norm = true;
         vit.global_pool = "avg";
       })},
      {"swiglu_packed", of([](Vit& vit) {
         vit.mlp_layer = "swiglu_packed";
         vit.reg_tokens = 4;
         vit.no_embed_class = true;
         vit.patch_drop_rate = 0.3;
       })},
      {"map_pool", of([](Vit& vit) {
         vit.global_pool = "map";
         vit.class_token = false;
         vit.img_size = {4, 12};
         vit.pre_norm = true;
       })},
      {"distilled", of([](Vit& vit) {
         vit.distilled = true;
         vit.img_size = {4, 12};
         vit.drop_rate = 0.1;
       })},
      {"representation", of([](Vit& vit) { vit.representation_size = 16; })},
      {"variables", of([](Vit& vit) {
         vit.variables = {"density", "speed"};
         vit.class_token = false;
         vit.global_pool = "avg";
         vit.img_size = {4, 12};
       })},
      {"volume", of([](Vit& vit) {
         vit.img_size = {4, 4, 12};
         vit.patch_size = {4, 4, 4};
         vit.class_token = false;
         vit.global_pool = "avgmax";
       })},
      {"res_post_norm", of([](Vit& vit) {
         vit.block_layer = "res_post_norm";
         vit.init_values = 0.5;
         vit.embed_norm = true;
       })},
      {"parallel_things", of([](Vit& vit) {
         vit.block_layer = "parallel_things";
         vit.init_values = 0.1;
         vit.scale_attn_norm = true;
       })},
      {"parallel_scaling", of([](Vit& vit) {
         vit.block_layer = "parallel_scaling";
         vit.qkv_bias = false;
         vit.qk_norm = true;
         vit.init_values = 0.1;
       })},
      {"diff", of([](Vit& vit) {
         vit.attn_layer = "diff";
         vit.qk_norm = true;
       })},
      {"diff_parallel_scaling", of([](Vit& vit) {
         vit.attn_layer = "diff";
         vit.block_layer = "parallel_scaling";
         vit.mlp_ratio = 3;
       })},
      {"adaln", {denoiser}},
      {"denoiser", {added}},
  };
}

}  // namespace fovea::train::testing
