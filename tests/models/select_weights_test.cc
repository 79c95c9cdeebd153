// Encoders from one model into another: what goes where, what is left out, what is refused.
#include "fovea/models/select_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"
#include "fovea/models/mae.h"
#include "fovea/models/unetr.h"
#include "fovea/models/weights.h"
#include "fovea/nn/pos_embed.h"
#include "tests/support/close.h"

namespace fovea::models {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

VitConfig shared_encoder() {
  VitConfig vit;
  vit.img_size = {16};
  vit.patch_size = {4};
  vit.in_chans = 1;
  vit.embed_dim = 24;
  vit.depth = 2;
  vit.num_heads = 2;
  vit.pos_embed = "sincos";
  return vit;
}

MaeConfig mae_with(const VitConfig& encoder) {
  MaeConfig config;
  config.encoder.vit = EncoderConfig::headless(encoder);
  config.decoder_embed_dim = 12;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  return config;
}

VitConfig classifier_with(const VitConfig& encoder) {
  auto vit = encoder;
  vit.num_classes = 3;
  return vit;
}

at::Tensor value(const Model& model, const std::string& name) {
  return model.named_parameters()[name].detach();
}

constexpr LoadOptions kEncoderOnly = {.part = WeightsPart::kEncoder};

std::string refusal_of(Model& model, const Model& source, const LoadOptions& options) {
  try {
    load_weights(model, weights_of(source), "source", options);
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "loaded";
}

TEST(SelectWeightsTest, EncoderOfAMaeGoesIntoAClassifier) {
  Mae mae(mae_with(shared_encoder()));
  mae.init_weights(1);
  Vit vit(classifier_with(shared_encoder()));
  vit.init_weights(2);
  const auto head = value(vit, "head.weight").clone();
  const auto report = load_weights(vit, weights_of(mae), "mae", kEncoderOnly);
  EXPECT_THAT(report.skipped, UnorderedElementsAre("head.weight", "head.bias"));
  EXPECT_TRUE(value(vit, "head.weight").equal(head));
  EXPECT_THAT(report.left_out, Contains("decoder_blocks.0.attn.qkv.weight"));
  EXPECT_THAT(report.left_out, Contains("mask_token"));
  EXPECT_THAT(report.text(), HasSubstr("left out"));
  EXPECT_EQ(report.loaded.size() + 2, vit.named_parameters().size());
  for (const auto& name : report.loaded) {
    EXPECT_TRUE(value(vit, name).equal(value(mae, "encoder." + name))) << name;
  }
}

TEST(SelectWeightsTest, AllOfAMaeIsRefusedByAClassifierWithAHint) {
  Mae mae(mae_with(shared_encoder()));
  mae.init_weights(1);
  Vit vit(classifier_with(shared_encoder()));
  EXPECT_THAT(refusal_of(vit, mae, {}), HasSubstr("init.part: encoder"));
}

TEST(SelectWeightsTest, ClassifierGoesIntoTheEncoderOfAMae) {
  Vit vit(classifier_with(shared_encoder()));
  vit.init_weights(1);
  Mae mae(mae_with(shared_encoder()));
  mae.init_weights(2);
  const auto report = load_weights(mae, weights_of(vit), "vit", kEncoderOnly);
  EXPECT_THAT(report.left_out, UnorderedElementsAre("head.weight", "head.bias"));
  EXPECT_THAT(report.skipped, Contains("decoder_pred.weight"));
  EXPECT_TRUE(
      value(mae, "encoder.blocks.1.attn.qkv.weight").equal(value(vit, "blocks.1.attn.qkv.weight")));
}

// Names of an original MAE checkpoint: no `encoder.`, the decoder beside it.
nn::NamedTensors original_names(const Mae& mae) {
  nn::NamedTensors tensors;
  for (const auto& [name, tensor] : weights_of(mae)) {
    tensors.emplace_back(name.starts_with("encoder.") ? name.substr(8) : name, tensor);
  }
  return tensors;
}

TEST(SelectWeightsTest, OriginalMaeNamesAreRead) {
  Mae saved(mae_with(shared_encoder())), loaded(mae_with(shared_encoder()));
  saved.init_weights(1);
  loaded.init_weights(2);
  EXPECT_TRUE(load_weights(loaded, original_names(saved), "original").is_complete());
  for (const auto& item : saved.named_parameters()) {
    EXPECT_TRUE(value(loaded, item.key()).equal(item.value())) << item.key();
  }
  Vit vit(classifier_with(shared_encoder()));
  vit.init_weights(3);
  const auto report = load_weights(vit, original_names(saved), "original", kEncoderOnly);
  EXPECT_TRUE(value(vit, "norm.weight").equal(value(saved, "encoder.norm.weight")));
  EXPECT_THAT(report.left_out, Contains("decoder_norm.weight"));
}

// As the published fine-tuning with average pooling: a fresh norm behind the pooling.
TEST(SelectWeightsTest, NormIsLeftOutForAPoolingWithItsOwn) {
  Mae mae(mae_with(shared_encoder()));
  mae.init_weights(1);
  auto config = classifier_with(shared_encoder());
  config.global_pool = "avg";
  Vit vit(config);
  vit.init_weights(2);
  const auto report = load_weights(vit, weights_of(mae), "mae", kEncoderOnly);
  EXPECT_THAT(report.left_out, Contains("norm.weight"));
  EXPECT_THAT(report.skipped,
              UnorderedElementsAre("fc_norm.weight", "fc_norm.bias", "head.weight", "head.bias"));
}

TEST(SelectWeightsTest, PositionsAreResizedInTwoAndThreeDimensions) {
  for (const bool is_volume : {false, true}) {
    auto encoder = shared_encoder();
    if (is_volume) encoder.img_size = {8, 8, 8};
    Mae mae(mae_with(encoder));
    mae.init_weights(1);
    const std::vector<int64_t> old_grid(is_volume ? 3 : 2, is_volume ? 2 : 4);
    auto config = classifier_with(encoder);
    config.img_size = is_volume ? std::vector<int64_t>{8, 12, 16} : std::vector<int64_t>{24, 32};
    Vit vit(config);
    vit.init_weights(2);
    const auto report = load_weights(vit, weights_of(mae), "mae", kEncoderOnly);
    EXPECT_EQ(report.adapted.size(), 1U);
    const auto resized = nn::resize_pos_embed(value(mae, "encoder.pos_embed"), old_grid,
                                              vit.grid_size(), 1, nn::PosEmbedInterp::kBicubic);
    EXPECT_TRUE(value(vit, "pos_embed").equal(resized));
    EXPECT_FALSE(load_weights(vit, weights_of(mae), "mae", kEncoderOnly).adapted.empty());
    LoadOptions strict = kEncoderOnly;
    strict.resize_pos_embed = false;
    EXPECT_THAT(refusal_of(vit, mae, strict), HasSubstr("mismatched"));
  }
}

// A MAE with class token and registers into an encoder without them: their rows go too.
TEST(SelectWeightsTest, PrefixTokensAreLeftOutWithTheirRows) {
  auto with_tokens = shared_encoder();
  with_tokens.reg_tokens = 2;
  Mae mae(mae_with(with_tokens));
  mae.init_weights(1);
  auto without = shared_encoder();
  without.class_token = false;
  Mae bare(mae_with(without));
  bare.init_weights(2);
  auto report = load_weights(bare, weights_of(mae), "mae", kEncoderOnly);
  EXPECT_THAT(report.left_out, Contains("cls_token"));
  EXPECT_THAT(report.left_out, Contains("reg_token"));
  EXPECT_TRUE(
      value(bare, "encoder.pos_embed").equal(value(mae, "encoder.pos_embed").narrow(1, 3, 16)));
  Mae with_class(mae_with(shared_encoder()));
  with_class.init_weights(2);
  with_class.named_parameters()["encoder.pos_embed"].detach().zero_();
  report = load_weights(with_class, weights_of(mae), "mae", kEncoderOnly);
  EXPECT_THAT(report.left_out, testing::Not(Contains("cls_token")));
  EXPECT_TRUE(value(with_class, "encoder.pos_embed")
                  .narrow(1, 1, 16)
                  .equal(value(mae, "encoder.pos_embed").narrow(1, 3, 16)));
}

// The start of a segmentation: the decoder is fresh, positions are those of a larger volume.
TEST(SelectWeightsTest, EncoderOfAMaeGoesIntoAUnetr) {
  auto encoder = shared_encoder();
  encoder.img_size = {8, 8, 8};
  encoder.depth = 4;
  Mae mae(mae_with(encoder));
  mae.init_weights(1);
  UnetrConfig config;
  config.num_classes = 2;
  config.feature_size = 4;
  config.encoder.vit = EncoderConfig::headless(encoder);
  config.encoder.vit.class_token = false;
  config.encoder.vit.img_size = {16, 16, 16};
  Unetr unetr(config);
  unetr.init_weights(2);
  const auto report = load_weights(unetr, weights_of(mae), "mae", kEncoderOnly);
  EXPECT_THAT(report.left_out, Contains("cls_token"));
  EXPECT_THAT(report.adapted, ElementsAre("encoder.pos_embed: [1, 8, 24] -> [1, 64, 24]"));
  for (const auto& name : report.loaded) EXPECT_TRUE(name.starts_with("encoder.")) << name;
  for (const auto& name : report.skipped) EXPECT_FALSE(name.starts_with("encoder.")) << name;
  EXPECT_TRUE(value(unetr, "encoder.blocks.3.mlp.fc2.weight")
                  .equal(value(mae, "encoder.blocks.3.mlp.fc2.weight")));
}

TEST(SelectWeightsTest, TablesWithoutPrefixRowsKeepTheirRows) {
  auto registers = shared_encoder();
  registers.class_token = false;
  registers.reg_tokens = 2;
  registers.no_embed_class = true;
  Mae mae(mae_with(registers));
  mae.init_weights(1);
  auto without = registers;
  without.reg_tokens = 0;
  Mae bare(mae_with(without));
  bare.init_weights(2);
  load_weights(bare, weights_of(mae), "mae", kEncoderOnly);
  EXPECT_TRUE(value(bare, "encoder.pos_embed").equal(value(mae, "encoder.pos_embed")));
}

TEST(SelectWeightsTest, EncodersThatDifferAreRefused) {
  auto deeper = shared_encoder();
  deeper.depth = 3;
  Mae mae(mae_with(deeper));
  mae.init_weights(1);
  Vit vit(classifier_with(shared_encoder()));
  EXPECT_THAT(refusal_of(vit, mae, kEncoderOnly), HasSubstr("blocks.2.attn.qkv.weight"));
  auto shallower = shared_encoder();
  shallower.depth = 1;
  Mae small(mae_with(shallower));
  small.init_weights(1);
  EXPECT_THAT(refusal_of(vit, small, kEncoderOnly), HasSubstr("missing"));
  auto no_class = shared_encoder();
  no_class.class_token = false;
  Mae bare(mae_with(no_class));
  bare.init_weights(1);
  EXPECT_THAT(refusal_of(vit, bare, kEncoderOnly), HasSubstr("cls_token"));
}

TEST(SelectWeightsTest, PartsHaveNames) {
  EXPECT_EQ(weights_part_from_name("all"), WeightsPart::kAll);
  EXPECT_EQ(weights_part_from_name("encoder"), WeightsPart::kEncoder);
  EXPECT_THROW(weights_part_from_name("head"), ConfigError);
}

// UCF-VIT's files name a shared tokeniser once for each variable.
TEST(SelectWeightsTest, CopiesOfASharedTokenizerAreLeftOut) {
  auto encoder = shared_encoder();
  encoder.variables = {"a", "b", "c"};
  encoder.in_chans = 3;
  encoder.share_patch_embed = true;
  encoder.class_token = false;
  Mae source(mae_with(encoder)), model(mae_with(encoder));
  source.init_weights(1);
  model.init_weights(2);
  nn::NamedTensors flat;
  for (const auto& [name, tensor] : weights_of(source)) {
    const auto plain = name.starts_with("encoder.") ? name.substr(8) : name;
    flat.emplace_back(plain, tensor);
    for (const char copy : {'1', '2'}) {
      auto other = plain;
      if (!other.starts_with("patch_embed.token_embeds.0.")) continue;
      other[25] = copy;
      flat.emplace_back(other, tensor.clone());
    }
  }
  for (const auto& options : {LoadOptions{}, kEncoderOnly}) {
    const auto report = load_weights(model, flat, "file", options);
    EXPECT_THAT(report.left_out, Contains("patch_embed.token_embeds.2.proj.bias"));
    EXPECT_THAT(report.left_out, Contains("patch_embed.token_embeds.1.proj.weight"));
  }
  const std::string first = "encoder.patch_embed.token_embeds.0.proj.weight";
  support::expect_same_bits(value(model, first), value(source, first), first);
  // One that is not equal is a tokeniser that would be lost.
  for (auto& [name, tensor] : flat) {
    if (name == "patch_embed.token_embeds.2.proj.weight") tensor = tensor + 1;
  }
  EXPECT_THROW(load_weights(model, flat, "file"), CheckpointError);
}

// A patch on a grid and an adaptive patch have one projection, in another layout.
TEST(SelectWeightsTest, PatchProjectionsGoBetweenAGridAndAdaptivePatches) {
  auto config = classifier_with(shared_encoder());
  config.pos_embed = "none";
  config.in_chans = 2;
  auto adaptive_config = config;
  adaptive_config.patching = "adaptive";
  adaptive_config.fixed_length = 16;
  Vit grid(config), adaptive(adaptive_config), again(config);
  grid.init_weights(1);
  adaptive.init_weights(2);
  again.init_weights(3);
  const auto report = load_weights(adaptive, weights_of(grid), "grid");
  EXPECT_THAT(report.adapted, ElementsAre(HasSubstr("[24, 2, 4, 4] -> [24, 32]")));
  load_weights(again, weights_of(adaptive), "adaptive");
  const std::string name = "patch_embed.proj.weight";
  support::expect_same_bits(value(again, name), value(grid, name), name);
  // Values of a patch lie pixel by pixel, channels last.
  const auto weight = value(grid, name), flat = value(adaptive, name);
  EXPECT_EQ(flat[5][2 * (4 * 1 + 3) + 1].item<float>(), weight[5][1][1][3].item<float>());
}

}  // namespace
}  // namespace fovea::models
