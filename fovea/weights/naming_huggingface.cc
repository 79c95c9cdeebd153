// Hugging Face transformers: modeling_vit.py, modeling_dinov2.py,
// modeling_dinov2_with_registers.py, modeling_vit_mae.py. Files keep the names of version 4; models
// of version 5 have shorter ones.
#include "fovea/weights/naming.h"

namespace fovea::weights {

Naming huggingface_vit_naming() {
  return {
      .name = "hf_vit",
      .title = "Hugging Face's ViT",
      .signs = {"<vit.|deit.|><encoder.layer|layers>.{i}.layernorm_before.weight"},
      .rules = {
          {{"<vit.|deit.|>embeddings.cls_token"}, "cls_token"},
          {{"<vit.|deit.|>embeddings.distillation_token"}, "dist_token"},
          {{"<vit.|deit.|>embeddings.position_embeddings"}, "pos_embed"},
          {{"<vit.|deit.|>embeddings.mask_token"}, ""},
          {{"<vit.|deit.|>embeddings.patch_embeddings.projection.{p}"}, "patch_embed.proj.{p}"},
          {{"<vit.|deit.|><encoder.layer|layers>.{i}.layernorm_before.{p}"},
           "blocks.{i}.norm1.{p}"},
          {{"<vit.|deit.|><encoder.layer|layers>.{i}.attention.<attention.query|q_proj>.{p}",
            "<vit.|deit.|><encoder.layer|layers>.{i}.attention.<attention.key|k_proj>.{p}",
            "<vit.|deit.|><encoder.layer|layers>.{i}.attention.<attention.value|v_proj>.{p}"},
           "blocks.{i}.attn.qkv.{p}"},
          {{"<vit.|deit.|><encoder.layer|layers>.{i}.attention.<output.dense|o_proj>.{p}"},
           "blocks.{i}.attn.proj.{p}"},
          {{"<vit.|deit.|><encoder.layer|layers>.{i}.layernorm_after.{p}"}, "blocks.{i}.norm2.{p}"},
          {{"<vit.|deit.|><encoder.layer|layers>.{i}.<intermediate.dense|mlp.fc1>.{p}"},
           "blocks.{i}.mlp.fc1.{p}"},
          {{"<vit.|deit.|><encoder.layer|layers>.{i}.<output.dense|mlp.fc2>.{p}"},
           "blocks.{i}.mlp.fc2.{p}"},
          {{"<vit.|deit.|>layernorm.{p}"}, "norm.{p}"},
          {{"<vit.|deit.|>pooler.dense.{p}"}, "pre_logits.fc.{p}"},
          {{"<classifier|cls_classifier>.{p}"}, "head.{p}"},
          {{"distillation_classifier.{p}"}, "head_dist.{p}"}}};
}

Naming huggingface_dinov2_naming() {
  return {
      .name = "hf_dinov2",
      .title = "Hugging Face's Dinov2, with and without registers",
      .signs = {"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.layer_scale{n}.lambda1"},
      .rules =
          {{{"<|dinov2.|dinov2_with_registers.>embeddings.cls_token"}, "cls_token"},
           {{"<|dinov2.|dinov2_with_registers.>embeddings.mask_token"}, "mask_token"},
           {{"<|dinov2.|dinov2_with_registers.>embeddings.register_tokens"}, "reg_token"},
           {{"<|dinov2.|dinov2_with_registers.>embeddings.position_embeddings"}, "pos_embed"},
           {{"<|dinov2.|dinov2_with_registers.>embeddings.patch_embeddings.projection.{p}"},
            "patch_embed.proj.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.norm{n}.{p}"},
            "blocks.{i}.norm{n}.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.attention.<attention.query|q_proj>"
             "."
             "{p}",
             "<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.attention.<attention.key|k_proj>."
             "{p}",
             "<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.attention.<attention.value|v_proj>"
             "."
             "{p}"},
            "blocks.{i}.attn.qkv.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.attention.<output.dense|o_proj>.{"
             "p}"},
            "blocks.{i}.attn.proj.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.layer_scale{n}.lambda1"},
            "blocks.{i}.ls{n}.gamma"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.mlp.fc{n}.{p}"},
            "blocks.{i}.mlp.fc{n}.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.mlp.weights_in.{p}"},
            "blocks.{i}.mlp.w12.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.mlp.gate_proj.{p}",
             "<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.mlp.up_proj.{p}"},
            "blocks.{i}.mlp.w12.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>encoder.layer.{i}.mlp.<weights_out|down_proj>.{p}"},
            "blocks.{i}.mlp.w3.{p}"},
           {{"<|dinov2.|dinov2_with_registers.>layernorm.{p}"}, "norm.{p}"},
           {{"classifier.{p}"}, "head.{p}"}},
      .after_reading = read_dinov2_tokens,
      .before_writing = write_dinov2_tokens,
      .name_after_reading = read_dinov2_name,
      .adds_up = "<|dinov2.|dinov2_with_registers.>embeddings.register_tokens"};
}

Naming huggingface_mae_naming() {
  return {
      .name = "hf_mae",
      .title = "Hugging Face's ViTMAE",
      .signs = {"decoder.decoder_embed.weight"},
      .rules = {
          {{"vit.embeddings.cls_token"}, "encoder.cls_token"},
          {{"vit.embeddings.position_embeddings"}, "encoder.pos_embed"},
          {{"vit.embeddings.patch_embeddings.projection.{p}"}, "encoder.patch_embed.proj.{p}"},
          {{"vit.<encoder.layer|layers>.{i}.layernorm_before.{p}"}, "encoder.blocks.{i}.norm1.{p}"},
          {{"vit.<encoder.layer|layers>.{i}.attention.<attention.query|q_proj>.{p}",
            "vit.<encoder.layer|layers>.{i}.attention.<attention.key|k_proj>.{p}",
            "vit.<encoder.layer|layers>.{i}.attention.<attention.value|v_proj>.{p}"},
           "encoder.blocks.{i}.attn.qkv.{p}"},
          {{"vit.<encoder.layer|layers>.{i}.attention.<output.dense|o_proj>.{p}"},
           "encoder.blocks.{i}.attn.proj.{p}"},
          {{"vit.<encoder.layer|layers>.{i}.layernorm_after.{p}"}, "encoder.blocks.{i}.norm2.{p}"},
          {{"vit.<encoder.layer|layers>.{i}.<intermediate.dense|mlp.fc1>.{p}"},
           "encoder.blocks.{i}.mlp.fc1.{p}"},
          {{"vit.<encoder.layer|layers>.{i}.<output.dense|mlp.fc2>.{p}"},
           "encoder.blocks.{i}.mlp.fc2.{p}"},
          {{"vit.layernorm.{p}"}, "encoder.norm.{p}"},
          {{"decoder.mask_token"}, "mask_token"},
          {{"decoder.decoder_pos_embed"}, "decoder_pos_embed"},
          {{"decoder.decoder_embed.{p}"}, "decoder_embed.{p}"},
          {{"decoder.<decoder_layers|decoder_encoder.layer>.{i}.layernorm_before.{p}"},
           "decoder_blocks.{i}.norm1.{p}"},
          {{"decoder.<decoder_layers|decoder_encoder.layer>.{i}.attention.<attention.query|q_proj>."
            "{p}",
            "decoder.<decoder_layers|decoder_encoder.layer>.{i}.attention.<attention.key|k_proj>.{"
            "p}",
            "decoder.<decoder_layers|decoder_encoder.layer>.{i}.attention.<attention.value|v_proj>."
            "{p}"},
           "decoder_blocks.{i}.attn.qkv.{p}"},
          {{"decoder.<decoder_layers|decoder_encoder.layer>.{i}.attention.<output.dense|o_proj>.{"
            "p}"},
           "decoder_blocks.{i}.attn.proj.{p}"},
          {{"decoder.<decoder_layers|decoder_encoder.layer>.{i}.layernorm_after.{p}"},
           "decoder_blocks.{i}.norm2.{p}"},
          {{"decoder.<decoder_layers|decoder_encoder.layer>.{i}.<intermediate.dense|mlp.fc1>.{p}"},
           "decoder_blocks.{i}.mlp.fc1.{p}"},
          {{"decoder.<decoder_layers|decoder_encoder.layer>.{i}.<output.dense|mlp.fc2>.{p}"},
           "decoder_blocks.{i}.mlp.fc2.{p}"},
          {{"decoder.decoder_norm.{p}"}, "decoder_norm.{p}"},
          {{"decoder.decoder_pred.{p}"}, "decoder_pred.{p}"}}};
}

}  // namespace fovea::weights
