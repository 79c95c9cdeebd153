// Google's Flax models: vision_transformer (AugReg: MultiHeadDotProductAttention_1, MlpBlock_3) and
// big_vision (.._0, MlpBlock_0; all blocks in one array where they were scanned; MAP head); and
// Rosetta's ViT, which is Google's one module further in.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/core/error.h"
#include "fovea/weights/naming.h"

namespace fovea::weights {
namespace {

constexpr std::array<std::string_view, 3> kGooglePrefixes = {"opt/target/", "params/img/",
                                                             "params/"};
constexpr std::string_view kPatchProjection = "embedding/kernel";
constexpr std::string_view kScanned = "Transformer/encoderblock/";

// Takes the image tower's names off their prefix (the text tower and the optimizer stay out), and
// the blocks of a scanned encoder apart.
nn::NamedTensors read_google_tree(nn::NamedTensors tensors, Notes& notes) {
  std::string prefix;
  for (const auto candidate : kGooglePrefixes) {
    const auto name = std::string(candidate) + std::string(kPatchProjection);
    const bool is_there = std::any_of(tensors.begin(), tensors.end(),
                                      [&](const auto& item) { return item.first == name; });
    if (is_there && prefix.empty()) prefix = candidate;
  }
  nn::NamedTensors out;
  size_t left_out = 0;
  for (auto& [name, tensor] : tensors) {
    if (!name.starts_with(prefix)) {
      ++left_out;
      continue;
    }
    const auto rest = name.substr(prefix.size());
    if (!rest.starts_with(kScanned)) {
      out.emplace_back(rest, tensor);
      continue;
    }
    if (tensor.dim() < 1 || tensor.size(0) > 4096)
      fail<DataError>("{}: no array of the blocks of a scanned encoder", name);
    const auto blocks = tensor.unbind(0);
    for (size_t i = 0; i < blocks.size(); ++i) {
      out.emplace_back(
          fmt::format("Transformer/encoderblock_{}/{}", i, rest.substr(kScanned.size())),
          blocks[i]);
    }
  }
  if (!prefix.empty()) {
    notes.push_back(
        fmt::format("\"{}\" taken off the names, {} arrays beside it left out", prefix, left_out));
  }
  return out;
}

// The model lies within a classifier, and its class token and positions have no batch dimension.
nn::NamedTensors read_rosetta_tree(nn::NamedTensors tensors, Notes& notes) {
  constexpr std::array<std::string_view, 2> kModules = {"vision_model/", "VisionTransformer/"};
  for (auto& [name, tensor] : tensors) {
    for (const auto module : kModules) {
      if (name.starts_with(module)) name.erase(0, module.size());
    }
    if (name == "cls" && tensor.dim() == 1) tensor = tensor.view({1, 1, -1});
    if (name == "Transformer/posembed_input/pos_embedding" && tensor.dim() == 2)
      tensor = tensor.unsqueeze(0);
  }
  notes.emplace_back(
      "\"vision_model/VisionTransformer/\" taken off the names; flax's gelu is the tanh "
      "approximation: model.act_layer=gelu_tanh");
  return tensors;
}

}  // namespace

Naming rosetta_naming() {
  auto naming = google_naming();
  naming.name = "rosetta";
  naming.title = "Rosetta's ViT (t5x)";
  naming.signs = {"vision_model/<VisionTransformer/|>Transformer/encoder_norm/scale"};
  naming.rules.push_back({{"Transformer/pre_layernorm/scale"}, "norm_pre.weight"});
  naming.rules.push_back({{"Transformer/pre_layernorm/bias"}, "norm_pre.bias"});
  naming.before_reading = read_rosetta_tree;
  return naming;
}

Naming google_naming() {
  constexpr auto kBehind = Layout::kHeadsBehind;
  constexpr auto kInFront = Layout::kHeadsInFront;
  constexpr auto kTransposed = Layout::kTransposed;
  return {
      .name = "google",
      .title = "Google's vision_transformer or big_vision",
      .signs = {"<opt/target/|params/img/|params/|>Transformer/encoder_norm/scale"},
      .rules = {{{"embedding/kernel"}, "patch_embed.proj.weight", Layout::kConvolution},
                {{"embedding/bias"}, "patch_embed.proj.bias"},
                {{"cls"}, "cls_token"},
                {{"<Transformer/posembed_input/|>pos_embedding"}, "pos_embed"},
                {{"Transformer/encoderblock_{i}/LayerNorm_0/scale"}, "blocks.{i}.norm1.weight"},
                {{"Transformer/encoderblock_{i}/LayerNorm_0/bias"}, "blocks.{i}.norm1.bias"},
                {{"Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/query/kernel",
                  "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/key/kernel",
                  "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/value/kernel"},
                 "blocks.{i}.attn.qkv.weight",
                 kBehind},
                {{"Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/query/bias",
                  "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/key/bias",
                  "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/value/bias"},
                 "blocks.{i}.attn.qkv.bias",
                 kBehind},
                {{"Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/out/kernel"},
                 "blocks.{i}.attn.proj.weight",
                 kInFront},
                {{"Transformer/encoderblock_{i}/MultiHeadDotProductAttention_<1|0>/out/bias"},
                 "blocks.{i}.attn.proj.bias"},
                {{"Transformer/encoderblock_{i}/LayerNorm_<2|1>/scale"}, "blocks.{i}.norm2.weight"},
                {{"Transformer/encoderblock_{i}/LayerNorm_<2|1>/bias"}, "blocks.{i}.norm2.bias"},
                {{"Transformer/encoderblock_{i}/MlpBlock_<3|0>/Dense_0/kernel"},
                 "blocks.{i}.mlp.fc1.weight",
                 kTransposed},
                {{"Transformer/encoderblock_{i}/MlpBlock_<3|0>/Dense_0/bias"},
                 "blocks.{i}.mlp.fc1.bias"},
                {{"Transformer/encoderblock_{i}/MlpBlock_<3|0>/Dense_1/kernel"},
                 "blocks.{i}.mlp.fc2.weight",
                 kTransposed},
                {{"Transformer/encoderblock_{i}/MlpBlock_<3|0>/Dense_1/bias"},
                 "blocks.{i}.mlp.fc2.bias"},
                {{"Transformer/encoder_norm/scale"}, "norm.weight"},
                {{"Transformer/encoder_norm/bias"}, "norm.bias"},
                {{"MAPHead_0/probe"}, "attn_pool.latent"},
                {{"MAPHead_0/MultiHeadDotProductAttention_0/query/kernel"},
                 "attn_pool.q.weight",
                 kBehind},
                {{"MAPHead_0/MultiHeadDotProductAttention_0/query/bias"},
                 "attn_pool.q.bias",
                 kBehind},
                {{"MAPHead_0/MultiHeadDotProductAttention_0/key/kernel",
                  "MAPHead_0/MultiHeadDotProductAttention_0/value/kernel"},
                 "attn_pool.kv.weight",
                 kBehind},
                {{"MAPHead_0/MultiHeadDotProductAttention_0/key/bias",
                  "MAPHead_0/MultiHeadDotProductAttention_0/value/bias"},
                 "attn_pool.kv.bias",
                 kBehind},
                {{"MAPHead_0/MultiHeadDotProductAttention_0/out/kernel"},
                 "attn_pool.proj.weight",
                 kInFront},
                {{"MAPHead_0/MultiHeadDotProductAttention_0/out/bias"}, "attn_pool.proj.bias"},
                {{"MAPHead_0/LayerNorm_0/scale"}, "attn_pool.norm.weight"},
                {{"MAPHead_0/LayerNorm_0/bias"}, "attn_pool.norm.bias"},
                {{"MAPHead_0/MlpBlock_0/Dense_0/kernel"}, "attn_pool.mlp.fc1.weight", kTransposed},
                {{"MAPHead_0/MlpBlock_0/Dense_0/bias"}, "attn_pool.mlp.fc1.bias"},
                {{"MAPHead_0/MlpBlock_0/Dense_1/kernel"}, "attn_pool.mlp.fc2.weight", kTransposed},
                {{"MAPHead_0/MlpBlock_0/Dense_1/bias"}, "attn_pool.mlp.fc2.bias"},
                {{"pre_logits/kernel"}, "pre_logits.fc.weight", kTransposed},
                {{"pre_logits/bias"}, "pre_logits.fc.bias"},
                {{"head/kernel"}, "head.weight", kTransposed},
                {{"head/bias"}, "head.bias"}},
      .is_written = false,  // the number of heads is not in the weights
      .before_reading = read_google_tree};
}

}  // namespace fovea::weights
