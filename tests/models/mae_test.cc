#include "fovea/models/mae.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "fovea/core/error.h"
#include "fovea/models/weights.h"
#include "fovea/nn/forward_context.h"
#include "fovea/nn/patchify.h"
#include "fovea/nn/pos_embed.h"
#include "tests/support/close.h"
#include "tests/support/temp_dir.h"

namespace fovea::models {
namespace {

using testing::HasSubstr;

MaeConfig small_mae() {
  MaeConfig config;
  auto& vit = config.encoder.vit;
  vit.img_size = {16};
  vit.patch_size = {4};
  vit.in_chans = 1;
  vit.embed_dim = 24;
  vit.depth = 2;
  vit.num_heads = 2;
  config.decoder_embed_dim = 16;
  config.decoder_depth = 1;
  config.decoder_num_heads = 2;
  return config;
}

MaeConfig volume_mae() {
  auto config = small_mae();
  auto& vit = config.encoder.vit;
  vit.img_size = {8, 8, 12};
  vit.patch_size = {4, 4, 6};
  vit.in_chans = 2;
  vit.reg_tokens = 1;
  config.decoder_embed_dim = 12;
  config.decoder_pos_embed = "sincos_learn";
  return config;
}

MaeConfig linear_mae() {
  auto config = small_mae();
  config.linear_decoder = true;
  config.encoder.vit.class_token = false;
  return config;
}

at::Tensor images_for(const MaeConfig& config, int64_t count, uint64_t seed) {
  std::vector<int64_t> shape = {count, config.encoder.vit.in_chans};
  for (const auto side : config.encoder.vit.img_sides()) shape.push_back(side);
  return support::random(shape, at::kFloat, seed);
}

at::Tensor keep_for(const Mae& model, const at::Tensor& images) {
  const auto rows = at::arange(images.size(0));
  return keep_patches(model.config(), {philox_key(1, "mask"), 0, rows}, model.num_patches(images));
}

std::set<std::string> names_outside(const Mae& model) {
  std::set<std::string> names;
  for (const auto& item : model.named_parameters()) {
    if (!item.key().starts_with("encoder.")) names.insert(item.key());
  }
  return names;
}

std::string refusal_of_mae(const MaeConfig& config) {
  try {
    Mae model(config, at::kMeta);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "built";
}

TEST(MaeTest, HasThePublishedNames) {
  const Mae model(small_mae());
  EXPECT_EQ(names_outside(model), (std::set<std::string>{"mask_token",
                                                         "decoder_pos_embed",
                                                         "decoder_embed.weight",
                                                         "decoder_embed.bias",
                                                         "decoder_norm.weight",
                                                         "decoder_norm.bias",
                                                         "decoder_pred.weight",
                                                         "decoder_pred.bias",
                                                         "decoder_blocks.0.norm1.weight",
                                                         "decoder_blocks.0.norm1.bias",
                                                         "decoder_blocks.0.attn.qkv.weight",
                                                         "decoder_blocks.0.attn.qkv.bias",
                                                         "decoder_blocks.0.attn.proj.weight",
                                                         "decoder_blocks.0.attn.proj.bias",
                                                         "decoder_blocks.0.norm2.weight",
                                                         "decoder_blocks.0.norm2.bias",
                                                         "decoder_blocks.0.mlp.fc1.weight",
                                                         "decoder_blocks.0.mlp.fc1.bias",
                                                         "decoder_blocks.0.mlp.fc2.weight",
                                                         "decoder_blocks.0.mlp.fc2.bias"}));
  EXPECT_EQ(names_outside(Mae(linear_mae())),
            (std::set<std::string>{"mask_token", "decoder_pred.weight", "decoder_pred.bias"}));
}

TEST(MaeTest, DecodersPositionIsTheFixedTable) {
  Mae model(small_mae());
  model.init_weights(1);
  const auto position = model.named_parameters()["decoder_pos_embed"];
  EXPECT_FALSE(position.requires_grad());
  EXPECT_TRUE(position.equal(nn::sincos_pos_embed({4, 4}, 16, 1)));
  Mae learned(volume_mae());
  learned.init_weights(1);
  const auto start = learned.named_parameters()["decoder_pos_embed"];
  EXPECT_TRUE(start.requires_grad());
  EXPECT_TRUE(start.equal(nn::sincos_pos_embed({2, 2, 2}, 12, 2)));
}

TEST(MaeTest, GivesImagesOfTheSameShape) {
  for (const auto& config : {small_mae(), volume_mae(), linear_mae()}) {
    Mae model(config);
    model.init_weights(1);
    model.eval();
    const auto images = images_for(config, 3, 1);
    const auto whole = model.forward(images);
    EXPECT_EQ(whole.sizes(), images.sizes());
    EXPECT_TRUE(whole.equal(model.forward(images))) << "evaluation masks alike each time";
    const auto patches = model.predict(images, {keep_for(model, images)});
    EXPECT_EQ(patches.size(1), model.num_patches(images));
    EXPECT_EQ(patches.size(2), images[0].numel() / model.num_patches(images));
  }
}

// What is masked does not reach the encoder at all.
TEST(MaeTest, DoesNotSeeMaskedPatches) {
  const auto config = small_mae();
  Mae model(config);
  model.init_weights(1);
  model.eval();
  const auto images = images_for(config, 2, 1);
  const auto ids_keep = keep_for(model, images);
  auto patches = nn::patchify(images, {4, 4});
  const auto mask = patch_mask(ids_keep, 16).unsqueeze(-1) > 0;  // [B, N, 1]
  const auto others = nn::unpatchify(patches.masked_fill(mask, 1e6), {4, 4}, {16, 16});
  EXPECT_TRUE(model.predict(images, {ids_keep}).equal(model.predict(others, {ids_keep})));
  const auto seen = nn::unpatchify(patches.masked_fill(mask.logical_not(), 2), {4, 4}, {16, 16});
  EXPECT_FALSE(model.predict(images, {ids_keep}).equal(model.predict(seen, {ids_keep})));
}

TEST(MaeTest, EncoderRunsOnTheKeptTokensAlone) {
  const auto config = small_mae();  // 16 patches, of which 4 are kept, and the class token
  Mae model(config);
  model.init_weights(1);
  model.eval();
  const auto images = images_for(config, 2, 1);
  const nn::RecordScope recorder({"encoder.blocks.0", "decoder_blocks.0"});
  model.predict(images, {keep_for(model, images)});
  ASSERT_EQ(recorder.intermediates().size(), 2U);
  EXPECT_EQ(recorder.intermediates()[0].second.sizes(), (at::IntArrayRef{2, 5, 24}));
  EXPECT_EQ(recorder.intermediates()[1].second.sizes(), (at::IntArrayRef{2, 17, 16}));
}

TEST(MaeTest, OrderOfKeptPatchesDoesNotMatter) {
  const auto config = volume_mae();
  Mae model(config);
  model.init_weights(1);
  model.eval();
  model.to(at::kDouble);
  const auto images = images_for(config, 2, 1).to(at::kDouble);
  const auto ids_keep = keep_for(model, images);
  support::expect_close(model.predict(images, {ids_keep.flip(1)}),
                        model.predict(images, {ids_keep}), at::kDouble, "predictions");
}

TEST(MaeTest, MasksARowByItsPlaceInTheGlobalBatch) {
  const auto config = small_mae();
  const auto key = philox_key(3, "mask");
  const auto whole = keep_patches(config, {key, 5, at::arange(8)}, 16);
  EXPECT_EQ(whole.sizes(), (at::IntArrayRef{8, 4}));
  for (int64_t row = 0; row < 8; ++row) {
    const auto alone = keep_patches(config, {key, 5, at::arange(row, row + 1)}, 16);
    EXPECT_TRUE(alone[0].equal(whole[row]));
  }
  EXPECT_FALSE(keep_patches(config, {key, 6, at::arange(8)}, 16).equal(whole));
  EXPECT_FALSE(keep_patches(config, {philox_key(4, "mask"), 5, at::arange(8)}, 16).equal(whole));
}

// Each patch is kept equally often: 20,000 draws, 5 standard deviations.
TEST(MaeTest, MasksEachPatchEquallyOften) {
  constexpr int64_t kRows = 20000;
  const auto config = small_mae();
  const auto ids = keep_patches(config, {philox_key(3, "mask"), 0, at::arange(kRows)}, 16);
  const auto kept = 1 - patch_mask(ids, 16);
  EXPECT_EQ(kept.sum().item<double>(), 4.0 * kRows);
  const auto share = kept.mean(0);
  const double bound = 5 * std::sqrt(0.25 * 0.75 / kRows);
  EXPECT_LT((share - 0.25).abs().max().item<double>(), bound);
}

TEST(MaeTest, KeepsAsManyAsPublished) {
  auto config = small_mae();
  config.mask_ratio = 0.75;
  EXPECT_EQ(config.num_kept(196), 49);
  config.mask_ratio = 0.6;
  EXPECT_EQ(config.num_kept(36), 14);  // floor(14.4)
  config.mask_ratio = 0.9;
  EXPECT_EQ(config.num_kept(196), 19);
}

TEST(MaeTest, MarksMaskedPatches) {
  const auto mask = patch_mask(at::tensor({1, 3, 0, 1}, at::kLong).view({2, 2}), 4);
  EXPECT_TRUE(
      mask.equal(at::tensor({1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0}, at::kFloat).view({2, 4})));
}

TEST(MaeTest, EveryParameterGetsAGradientAndALayer) {
  for (const auto& config : {small_mae(), volume_mae(), linear_mae()}) {
    Mae model(config);
    model.init_weights(1);
    const auto images = images_for(config, 4, 1);
    const auto target = nn::patchify(images, config.encoder.vit.patch_sides());
    (model.predict(images, {keep_for(model, images)}) - target).square().mean().backward();
    int64_t count = 0;
    for (const auto& item : model.named_parameters()) {
      EXPECT_LT(model.layer_id(item.key()), model.num_layers()) << item.key();
      EXPECT_EQ(model.is_backbone(item.key()), item.key().starts_with("encoder.")) << item.key();
      if (!item.value().requires_grad()) continue;
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
      ++count;
    }
    EXPECT_GT(count, 20);
  }
}

TEST(MaeTest, DrawsMasksInTrainingFromTheStep) {
  const auto config = small_mae();
  Mae model(config);
  model.init_weights(1);
  const auto images = images_for(config, 3, 1);
  EXPECT_THROW(model.forward(images), Error) << "no step, so no rows of a global batch";
  const auto run_step = [&](int64_t step) {
    const nn::StepScope scope(7, step, at::arange(3));
    return model.forward(images);
  };
  EXPECT_TRUE(run_step(1).equal(run_step(1)));
  EXPECT_FALSE(run_step(1).equal(run_step(2)));
}

TEST(MaeTest, TakesImagesOfAnotherSizeWhereItMay) {
  auto config = small_mae();
  config.encoder.vit.dynamic_img_size = true;
  Mae model(config);
  model.init_weights(1);
  model.eval();
  const auto images = support::random({2, 1, 24, 16}, at::kFloat, 1);
  EXPECT_EQ(model.forward(images).sizes(), images.sizes());
  Mae fixed(small_mae());
  fixed.init_weights(1);
  fixed.eval();
  EXPECT_THROW(fixed.forward(images), Error);
}

TEST(MaeTest, StepZeroWeightsAreAFunctionOfTheSeed) {
  Mae first(small_mae()), same(small_mae()), other(small_mae());
  first.init_weights(1);
  same.init_weights(1);
  other.init_weights(2);
  const auto weight = [](Mae& model, const char* name) { return model.named_parameters()[name]; };
  for (const auto* name :
       {"mask_token", "decoder_pred.weight", "decoder_blocks.0.mlp.fc1.weight"}) {
    EXPECT_TRUE(weight(first, name).equal(weight(same, name))) << name;
    EXPECT_FALSE(weight(first, name).equal(weight(other, name))) << name;
  }
}

TEST(MaeTest, GoesThroughAFile) {
  const support::TempDir folder;
  const auto path = folder.file("mae.safetensors");
  Mae saved(volume_mae()), loaded(volume_mae());
  saved.init_weights(1);
  loaded.init_weights(2);
  save_weights(saved, path);
  EXPECT_TRUE(load_weights(loaded, path).is_complete());
  const auto expected = saved.named_parameters(), found = loaded.named_parameters();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& item : expected)
    EXPECT_TRUE(found[item.key()].equal(item.value())) << item.key();
}

TEST(MaeTest, BothPositionsAreResizedToAnotherGrid) {
  auto config = volume_mae();
  Mae saved(config);
  saved.init_weights(1);
  config.encoder.vit.img_size = {16, 16, 24};
  Mae larger(config);
  larger.init_weights(2);
  const auto report = load_weights(larger, weights_of(saved), "saved");
  EXPECT_THAT(report.adapted,
              testing::UnorderedElementsAre("encoder.pos_embed: [1, 10, 24] -> [1, 66, 24]",
                                            "decoder_pos_embed: [1, 10, 12] -> [1, 66, 12]"));
  const auto resized = nn::resize_pos_embed(saved.named_parameters()["decoder_pos_embed"].detach(),
                                            {2, 2, 2}, {4, 4, 4}, 2, nn::PosEmbedInterp::kBicubic);
  EXPECT_TRUE(larger.named_parameters()["decoder_pos_embed"].equal(resized));
}

TEST(MaeTest, RefusesBadConfigs) {
  auto config = small_mae();
  config.mask_ratio = 0.99;
  EXPECT_THAT(refusal_of_mae(config), HasSubstr("mask_ratio 0.99 of 16 patches leaves 0 to see"));
  config = small_mae();
  config.mask_ratio = 1e-9;
  EXPECT_EQ(refusal_of_mae(config), "built") << "15 of 16";
  config = small_mae();
  config.decoder_num_heads = 3;
  EXPECT_THAT(refusal_of_mae(config),
              HasSubstr("decoder_num_heads 3 does not divide decoder_embed_dim 16"));
  config.linear_decoder = true;
  EXPECT_EQ(refusal_of_mae(config), "built") << "a linear decoder has no heads";
  config = volume_mae();
  config.decoder_embed_dim = 16;
  EXPECT_THAT(refusal_of_mae(config), HasSubstr("expected a width divisible by 6"));
  config = small_mae();
  config.encoder.vit.patch_drop_rate = 0.5;
  EXPECT_THAT(refusal_of_mae(config), HasSubstr("patch_drop_rate 0.5 beside the masks of MAE"));
  config = small_mae();
  config.encoder.vit.patching = "adaptive";
  EXPECT_THAT(refusal_of_mae(config), HasSubstr("use size_and_center or learn"));
  config = small_mae();
  config.encoder.vit.crop_to_patches = true;
  EXPECT_THAT(refusal_of_mae(config), HasSubstr("encoder.crop_to_patches"));
}

TEST(MaeTest, RefusesPatchesOfAnotherBatch) {
  const auto config = small_mae();
  Mae model(config);
  model.init_weights(1);
  const auto images = images_for(config, 3, 1);
  EXPECT_THROW(model.predict(images, {keep_for(model, images).narrow(0, 0, 2)}), Error);
}

}  // namespace
}  // namespace fovea::models
