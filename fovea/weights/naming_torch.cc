// The original PyTorch implementations: DINOv2's hub and training checkpoints, MAE, UCF-VIT,
// T2T-ViT, BioNeMo-Vision; and timm, whose names are Fovea's.
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "fovea/core/error.h"
#include "fovea/weights/naming.h"

namespace fovea::weights {
namespace {

at::Tensor* find_tensor(nn::NamedTensors& tensors, std::string_view name) {
  for (auto& item : tensors) {
    if (item.first == name) return &item.second;
  }
  return nullptr;
}

void replace_in_name(std::string& name, std::string_view from, std::string_view to) {
  const auto at = name.find(from);
  if (at != std::string::npos) name.replace(at, from.size(), to);
}

void replace_in_names(nn::NamedTensors& tensors, std::string_view from, std::string_view to) {
  for (auto& item : tensors) replace_in_name(item.first, from, to);
}

// True for gates and values packed into one matrix: mlp.fc1 [2 F, D], mlp.fc2 [D, F].
bool is_packed_swiglu(nn::NamedTensors& tensors) {
  const auto* up = find_tensor(tensors, "blocks.0.mlp.fc1.weight");
  const auto* down = find_tensor(tensors, "blocks.0.mlp.fc2.weight");
  return up != nullptr && down != nullptr && up->dim() == 2 && down->dim() == 2 &&
         up->size(0) == 2 * down->size(1);
}

// UCF-VIT keeps a table of positions that it does not read beside those of size and centre.
nn::NamedTensors drop_unread_positions(nn::NamedTensors tensors, Notes& notes) {
  if (find_tensor(tensors, "adaptive_pos_dep_emb.0.weight") == nullptr) return tensors;
  if (std::erase_if(tensors, [](const auto& item) { return item.first == "pos_embed"; }) > 0)
    notes.emplace_back("pos_embed left out: adaptive_pos_dep_emb stands in its place");
  return tensors;
}

// SAP's transposed convolution [D, E, P, P] applies to one patch at a time, as our `up` [E, P * P,
// D] does; its convolution of 1 x 1 is a linear layer.
void read_sap_decoder(nn::NamedTensors& tensors) {
  for (auto& [name, tensor] : tensors) {
    if (name == "neck.0.weight" && tensor.dim() >= 4) tensor = tensor.movedim(0, -1).flatten(1, -2);
    if (name == "mask_header.0.weight" && tensor.dim() >= 4) tensor = tensor.flatten(1);
  }
}

nn::NamedTensors read_ucf_tensors(nn::NamedTensors tensors, Notes& notes) {
  read_sap_decoder(tensors);
  return drop_unread_positions(std::move(tensors), notes);
}

nn::NamedTensors note_te_gelu(nn::NamedTensors tensors, Notes& notes) {
  notes.emplace_back(
      "TransformerEngine's gelu is the tanh approximation, and its norms' eps is 1e-5: "
      "model.act_layer=gelu_tanh, model.norm_eps=1e-5");
  return tensors;
}

}  // namespace

std::string read_dinov2_name(std::string name) {
  replace_in_name(name, ".mlp.w12.", ".mlp.fc1.");
  replace_in_name(name, ".mlp.w3.", ".mlp.fc2.");
  return name;
}

nn::NamedTensors read_dinov2_tokens(nn::NamedTensors tensors, Notes& notes) {
  for (auto& item : tensors) item.first = read_dinov2_name(std::move(item.first));
  if (std::erase_if(tensors, [](const auto& item) { return item.first == "mask_token"; }) > 0)
    notes.emplace_back("mask_token left out: only pre-training reads it");
  auto* position = find_tensor(tensors, "pos_embed");
  auto* cls = find_tensor(tensors, "cls_token");
  if (find_tensor(tensors, "reg_token") == nullptr || position == nullptr || cls == nullptr)
    return tensors;
  if (position->dim() != 3 || position->size(1) < 2 || cls->dim() != 3)
    fail<CheckpointError>("pos_embed or cls_token of DINOv2 with another shape than [1, N, D]");
  *cls = *cls + position->narrow(1, 0, 1);
  *position = position->narrow(1, 1, position->size(1) - 1);
  notes.emplace_back("cls_token += pos_embed[:, 0], which registers leave without a place");
  return tensors;
}

nn::NamedTensors write_dinov2_tokens(nn::NamedTensors tensors, Notes& notes) {
  if (is_packed_swiglu(tensors)) {
    replace_in_names(tensors, ".mlp.fc1.", ".mlp.w12.");
    replace_in_names(tensors, ".mlp.fc2.", ".mlp.w3.");
  }
  auto* position = find_tensor(tensors, "pos_embed");
  const auto* cls = find_tensor(tensors, "cls_token");
  if (cls == nullptr || position == nullptr)
    fail<CheckpointError>("DINOv2 has cls_token and pos_embed, these weights do not");
  const auto dim = cls->size(-1);
  if (find_tensor(tensors, "reg_token") != nullptr) {
    *position = at::cat({at::zeros({1, 1, dim}, position->options()), *position}, 1);
    notes.emplace_back("pos_embed[:, 0] = 0: what stood there is in cls_token");
  }
  const auto mask = at::zeros({1, dim}, cls->options());
  tensors.emplace_back("mask_token", mask);
  notes.emplace_back("mask_token = 0: only pre-training reads it");
  return tensors;
}

Naming dinov2_naming() {
  return {.name = "dinov2",
          .title = "DINOv2's hub or training checkpoints",
          .signs = {"mask_token", "register_tokens", "blocks.{i}.mlp.w12.weight",
                    "blocks.{c}.{i}.norm1.weight"},
          .rules = {{{"register_tokens"}, "reg_token"},
                    {{"cls_token"}, "cls_token"},
                    {{"pos_embed"}, "pos_embed"},
                    {{"mask_token"}, "mask_token"},
                    {{"patch_embed.proj.{p}"}, "patch_embed.proj.{p}"},
                    // block_chunks > 0 numbers the chunk, then the block among all.
                    {{"blocks.{c}.{i}.{*}"}, "blocks.{i}.{*}"},
                    {{"blocks.{i}.{*}"}, "blocks.{i}.{*}"},
                    {{"norm.{p}"}, "norm.{p}"},
                    {{"head.{p}"}, "head.{p}"}},
          .after_reading = read_dinov2_tokens,
          .before_writing = write_dinov2_tokens,
          .name_after_reading = read_dinov2_name,
          .adds_up = "register_tokens"};
}

// Encoder and decoder of models_mae.py; an encoder alone is in timm's names.
Naming mae_naming() {
  return {.name = "mae",
          .title = "MAE",
          .signs = {"decoder_embed.weight", "decoder_pred.weight"},
          .rules = {{{"mask_token"}, "mask_token"},
                    {{"decoder_{*}"}, "decoder_{*}"},
                    {{"cls_token"}, "encoder.cls_token"},
                    {{"pos_embed"}, "encoder.pos_embed"},
                    {{"patch_embed.proj.{p}"}, "encoder.patch_embed.proj.{p}"},
                    {{"blocks.{i}.{*}"}, "encoder.blocks.{i}.{*}"},
                    {{"norm.{p}"}, "encoder.norm.{p}"},
                    {{"encoder.{*}"}, "encoder.{*}"}}};  // Fovea's own
}

// src/UCF_VIT/simple/arch.py. Tokens of a plain image go through one PatchEmbed, adaptive patches
// through a Sequential of LayerNorm, Linear and LayerNorm. With use_varemb there is a list of
// either, one for each of default_vars, in which on a grid the same PatchEmbed stands again and
// again: the copies become tokenisers of their own, which start equal.
Naming ucf_vit_naming() {
  return {.name = "ucf",
          .title = "UCF-VIT",
          .signs = {"token_embeds.{*}"},
          .rules = {{{"token_embeds.proj.{p}"}, "patch_embed.proj.{p}"},
                    {{"token_embeds.{i}.proj.{p}"}, "patch_embed.token_embeds.{i}.proj.{p}"},
                    {{"token_embeds.{i}.0.{p}"}, "patch_embed.token_embeds.{i}.norm1.{p}"},
                    {{"token_embeds.{i}.1.{p}"}, "patch_embed.token_embeds.{i}.proj.{p}"},
                    {{"token_embeds.{i}.2.{p}"}, "patch_embed.token_embeds.{i}.norm2.{p}"},
                    {{"token_embeds.0.{p}"}, "patch_embed.norm1.{p}"},
                    {{"token_embeds.1.{p}"}, "patch_embed.proj.{p}"},
                    {{"token_embeds.2.{p}"}, "patch_embed.norm2.{p}"},
                    {{"var_embed"}, "patch_embed.var_embed"},
                    {{"var_query"}, "patch_embed.var_query"},
                    {{"var_agg.{*}"}, "patch_embed.var_agg.{*}"},
                    {{"adaptive_pos_dep_emb.0.{p}"}, "adaptive_pos_embed.fc.{p}"},
                    {{"decoder_adaptive_pos_dep_emb.0.{p}"}, "decoder_adaptive_pos_embed.fc.{p}"},
                    // The same module under its other name.
                    {{"patch_embed.proj.{p}"}, ""},
                    {{"cls_token"}, "cls_token"},
                    {{"pos_embed"}, "pos_embed"},
                    {{"blocks.{i}.{*}"}, "blocks.{i}.{*}"},
                    {{"norm.{p}"}, "norm.{p}"},
                    {{"head.{p}"}, "head.{p}"},
                    {{"mask_token"}, "mask_token"},
                    {{"decoder_{*}"}, "decoder_{*}"},
                    // UNETR's convolutions, its linear decoder, SAP's decoder.
                    {{"encoder{i}.{*}"}, "encoder{i}.{*}"},
                    {{"decoder{i}.{*}"}, "decoder{i}.{*}"},
                    {{"out.{*}"}, "out.{*}"},
                    {{"mlp_head.{p}"}, "head.{p}"},
                    {{"neck.0.weight"}, "up"},
                    {{"mask_header.0.{p}"}, "head.{p}"}},
          .is_written = false,  // it wants its patch embedding under two names
          .before_reading = read_ucf_tensors};
}

// models/t2t_vit.py: Fovea's model has the same names.
Naming t2t_vit_naming() {
  return {.name = "t2t",
          .title = "T2T-ViT",
          .signs = {"tokens_to_token.{*}"},
          .rules = {{{"{*}"}, "{*}"}}};
}

// recipes/vit/vit.py: timm's names, with the embeddings in a module of their own.
Naming bionemo_naming() {
  return {.name = "bionemo",
          .title = "BioNeMo-Vision",
          .signs = {"pos_embed.pos_embed"},
          .rules = {{{"pos_embed.pos_embed"}, "pos_embed"},
                    {{"pos_embed.cls_token"}, "cls_token"},
                    {{"pos_embed.reg_token"}, "reg_token"},
                    {{"{*}"}, "{*}"}}};
}

// The same model with TransformerEngine's TransformerLayer for a block: a norm is part of the layer
// behind it. As fuse_qkv_params has it, rows of queries, keys and values stand head by head;
// without it they are parameters of their own. _extra_state is of FP8's scales.
Naming te_naming() {
  auto naming = bionemo_naming();
  naming.name = "te";
  naming.title = "BioNeMo-Vision with TransformerEngine";
  naming.signs = {"blocks.{i}.self_attention.layernorm_qkv.layer_norm_weight"};
  std::vector<Rule> rules = {
      {{"blocks.{i}.self_attention.layernorm_qkv.layer_norm_{p}"}, "blocks.{i}.norm1.{p}"},
      {{"blocks.{i}.self_attention.layernorm_qkv.{p}"},
       "blocks.{i}.attn.qkv.{p}",
       Layout::kInterleaved},
      {{"blocks.{i}.self_attention.layernorm_qkv.query_{p}",
        "blocks.{i}.self_attention.layernorm_qkv.key_{p}",
        "blocks.{i}.self_attention.layernorm_qkv.value_{p}"},
       "blocks.{i}.attn.qkv.{p}"},
      {{"blocks.{i}.self_attention.proj.{p}"}, "blocks.{i}.attn.proj.{p}"},
      {{"blocks.{i}.layernorm_mlp.layer_norm_{p}"}, "blocks.{i}.norm2.{p}"},
      {{"blocks.{i}.layernorm_mlp.fc1_{p}"}, "blocks.{i}.mlp.fc1.{p}"},
      {{"blocks.{i}.layernorm_mlp.fc2_{p}"}, "blocks.{i}.mlp.fc2.{p}"},
      {{"blocks.{i}.{*}._extra_state"}, ""}};
  rules.insert(rules.end(), naming.rules.begin(), naming.rules.end());
  naming.rules = std::move(rules);
  naming.before_reading = note_te_gelu;
  return naming;
}

Naming timm_naming() {
  return {.name = "timm",
          .title = "timm",
          .signs = {"blocks.{i}.attn.qkv.weight"},
          .rules = {{{"{*}"}, "{*}"}}};
}

}  // namespace fovea::weights
