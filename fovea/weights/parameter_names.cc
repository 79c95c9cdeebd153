#include "fovea/weights/parameter_names.h"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "fovea/weights/pattern.h"

namespace fovea::weights {
namespace {

using PatternTexts = std::vector<std::string>;

void add_below(PatternTexts& names, const std::string& prefix,
               std::initializer_list<const char*> below) {
  for (const auto* name : below) names.push_back(prefix + name);
}

void add_mlp(PatternTexts& names, const std::string& prefix) {
  add_below(names, prefix, {"fc1.{p}", "fc2.{p}", "fc1_g.{p}", "fc1_x.{p}", "norm.{p}"});
}

// Of differential attention.
void add_difference(PatternTexts& names, const std::string& prefix) {
  add_below(names, prefix, {"lambda_q{i}", "lambda_k{i}", "sub_norm.{p}"});
}

void add_block(PatternTexts& names, const std::string& prefix) {
  add_below(names, prefix,
            {"norm1.{p}", "norm2.{p}", "attn.qkv.{p}", "attn.proj.{p}", "attn.q_norm.{p}",
             "attn.k_norm.{p}", "attn.norm.{p}", "ls1.gamma", "ls2.gamma", "modulation.proj.{p}"});
  add_mlp(names, prefix + "mlp.");
  add_difference(names, prefix + "attn.");
  // Of parallel things.
  const auto attns = prefix + "attns.{i}.", ffns = prefix + "ffns.{i}.";
  add_below(names, attns,
            {"norm.{p}", "attn.qkv.{p}", "attn.proj.{p}", "attn.q_norm.{p}", "attn.k_norm.{p}",
             "attn.norm.{p}", "ls.gamma"});
  add_difference(names, attns + "attn.");
  add_below(names, ffns, {"norm.{p}", "ls.gamma"});
  add_mlp(names, ffns + "mlp.");
  // Of parallel scaling.
  add_below(names, prefix,
            {"mlp_bias", "in_norm.{p}", "in_proj.{p}", "q_norm.{p}", "k_norm.{p}",
             "attn_out_proj.{p}", "mlp_out_proj.{p}", "out_proj.{p}", "ls.gamma"});
  add_difference(names, prefix);
}

void add_unet_block(PatternTexts& names, const std::string& prefix) {
  add_below(names, prefix, {"conv1.conv.{p}", "conv2.conv.{p}", "conv3.conv.{p}"});
}

// The ViT, by itself or as the encoder of another model.
void add_vit(PatternTexts& names, const std::string& prefix) {
  add_below(names, prefix,
            {"cls_token",
             "reg_token",
             "dist_token",
             "pos_embed",
             "pos_embed_x",
             "pos_embed_y",
             "patch_embed.proj.{p}",
             "patch_embed.norm.{p}",
             "patch_embed.norm{i}.{p}",
             "patch_embed.var_embed",
             "patch_embed.var_query",
             "patch_embed.var_agg.q.{p}",
             "patch_embed.var_agg.kv.{p}",
             "patch_embed.var_agg.proj.{p}",
             "patch_embed.token_embeds.{i}.proj.{p}",
             "patch_embed.token_embeds.{i}.norm{n}.{p}",
             "adaptive_pos_embed.fc.{p}",
             "norm_pre.{p}",
             "norm.{p}",
             "fc_norm.{p}",
             "pre_logits.fc.{p}",
             "head.{p}",
             "head_dist.{p}",
             "attn_pool.latent",
             "attn_pool.q.{p}",
             "attn_pool.kv.{p}",
             "attn_pool.proj.{p}",
             "attn_pool.norm.{p}"});
  add_mlp(names, prefix + "attn_pool.mlp.");
  add_block(names, prefix + "blocks.{i}.");
}

// MAE's and the diffusion ViT's second half.
void add_decoder(PatternTexts& names) {
  add_below(names, "",
            {"mask_token", "decoder_embed.{p}", "decoder_pos_embed", "decoder_norm.{p}",
             "decoder_pred.{p}", "decoder_modulation.proj.{p}", "decoder_adaptive_pos_embed.fc.{p}",
             "class_embed", "time_embed.fc{i}.{p}"});
  add_block(names, "decoder_blocks.{i}.");
}

void add_unetr(PatternTexts& names) {
  add_below(names, "",
            {"encoder{i}.transp_conv_init.conv.{p}", "encoder{i}.blocks.{b}.conv.{p}",
             "encoder{i}.blocks.{b}.0.conv.{p}", "decoder{i}.transp_conv.conv.{p}",
             "out.conv.conv.{p}", "up"});  // up: SAP's
  add_unet_block(names, "encoder{i}.layer.");
  add_unet_block(names, "encoder{i}.blocks.{b}.1.");
  add_unet_block(names, "decoder{i}.conv_block.");
}

void add_t2t(PatternTexts& names) {
  const std::string prefix = "tokens_to_token.";
  add_below(names, prefix, {"project.{p}"});
  add_block(names, prefix + "attention{i}.");
  add_below(names, prefix + "attention{i}.",
            {"w", "kqv.{p}", "proj.{p}", "mlp.0.{p}", "mlp.2.{p}"});
}

std::vector<Pattern> patterns() {
  PatternTexts names;
  add_vit(names, "");
  add_vit(names, "encoder.");
  add_decoder(names);
  add_unetr(names);
  add_t2t(names);
  std::vector<Pattern> compiled;
  for (const auto& name : names) compiled.emplace_back(name);
  return compiled;
}

}  // namespace

bool is_parameter_name(const std::string& name) {
  static const auto known = patterns();
  return std::any_of(known.begin(), known.end(),
                     [&](const Pattern& pattern) { return pattern.match(name).has_value(); });
}

}  // namespace fovea::weights
