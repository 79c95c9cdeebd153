// The ViT on adaptive patches, against timm's blocks with masked attention.
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/vit.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

class AdaptiveVitTest : public ::testing::TestWithParam<const char*> {};

support::Golden adaptive_golden(const std::string& name) {
  return support::load_golden("adaptive_vit_" + name + ".safetensors");
}

PatchInput patches_of(const support::Golden& golden) {
  return {.tokens = golden.at("tokens"),
          .sizes = golden.at("sizes"),
          .centers = golden.at("centers"),
          .padding = golden.at("padding").to(at::kBool)};
}

std::shared_ptr<Vit> adaptive_vit(const support::Golden& golden) {
  const at::NoGradGuard no_grad;
  auto model = std::make_shared<Vit>(support::config_from_json<VitConfig>(golden.config));
  model->to(at::kDouble);
  const auto weights = golden.group("weights");
  const auto parameters = model->named_parameters();
  EXPECT_EQ(parameters.size(), weights.size());
  for (const auto& [name, weight] : weights) parameters[name].copy_(weight);
  model->eval();
  return model;
}

TEST_P(AdaptiveVitTest, EqualsTimmsBlocksWithMaskedAttention) {
  const auto golden = adaptive_golden(GetParam());
  auto model = adaptive_vit(golden);
  ASSERT_TRUE(model->takes_patches());
  const auto logits = model->forward(patches_of(golden));
  const auto loss =
      at::cross_entropy_loss(logits, golden.at("labels"), {}, at::Reduction::Mean, -100, 0.1);
  loss.backward();
  support::NamedTensors gradients;
  for (const auto& item : model->named_parameters()) gradients[item.key()] = item.value().grad();
  const support::NamedTensors outputs = {{"logits", logits}, {"loss", loss}};
  const support::NamedTensors expected = {{"logits", golden.at("logits")},
                                          {"loss", golden.at("loss")}};
  EXPECT_PARITY(outputs, expected, at::kDouble);
  EXPECT_PARITY(gradients, golden.group("gradients"), at::kDouble);
}

TEST_P(AdaptiveVitTest, WhatStandsInThePaddingDoesNotMatter) {
  const auto golden = adaptive_golden(GetParam());
  auto model = adaptive_vit(golden);
  auto patches = patches_of(golden);
  const auto expected = model->forward(patches);
  const auto is_padding = patches.padding.unsqueeze(-1).to(at::kDouble);  // [B, 1, L, 1]
  patches.tokens = patches.tokens + 3.0 * is_padding;
  patches.centers = patches.centers + 50.0 * is_padding.to(at::kFloat);
  support::expect_same_bits(model->forward(patches), expected, "logits");
}

INSTANTIATE_TEST_SUITE_P(Goldens, AdaptiveVitTest,
                         ::testing::Values("learn", "pixels", "shares", "volume"),
                         [](const auto& info) { return std::string(info.param); });

TEST(AdaptiveVitModelTest, ASampleOfPaddingAloneGivesNumbers) {
  const auto golden = adaptive_golden("pixels");
  auto model = adaptive_vit(golden);
  auto patches = patches_of(golden);
  patches.padding.fill_(true);
  EXPECT_TRUE(model->forward(patches).isfinite().all().item<bool>());
}

TEST(AdaptiveVitModelTest, GradientsReachEveryParameterFromItsStart) {
  Vit model(parse_config<VitConfig>(
      "patching: adaptive\nfixed_length: 7\nimg_size: 30\npatch_size: 4\nin_chans: 1\n"
      "embed_dim: 16\ndepth: 2\nnum_heads: 2\nnum_classes: 3\npos_embed: size_and_center",
      "test"));
  model.init_weights(1);
  const auto logits = model.forward(PatchInput{.tokens = at::randn({2, 1, 7, 16}),
                                               .sizes = at::randn({2, 1, 7}).abs() * 8,
                                               .centers = at::randn({2, 1, 7, 2}).abs() * 15,
                                               .padding = at::zeros({2, 1, 7}, at::kBool)});
  logits.square().sum().backward();
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << item.key();
  }
}

std::string faults_of(const std::string& yaml) {
  try {
    parse_config<VitConfig>(yaml, "test");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(AdaptiveVitModelTest, RefusesWhatHasNoGrid) {
  EXPECT_THAT(faults_of("patching: adaptive\npos_embed: sincos"), HasSubstr("size_and_center"));
  EXPECT_THAT(faults_of("pos_embed: size_and_center"), HasSubstr("patching: adaptive"));
  EXPECT_THAT(faults_of("patching: adaptive\npatch_size: [4, 8]"), HasSubstr("one number"));
  EXPECT_THAT(faults_of("patching: adaptive\npatch_drop_rate: 0.5"), HasSubstr("expected 0"));
}

TEST(AdaptiveVitModelTest, RefusesOtherInputs) {
  const auto golden = adaptive_golden("learn");
  auto model = adaptive_vit(golden);
  EXPECT_THROW(model->forward(at::zeros({1, 2, 32, 48}, at::kDouble)), ConfigError);
  auto patches = patches_of(golden);
  patches.tokens = patches.tokens.narrow(2, 0, 5);
  EXPECT_THROW(model->forward(patches), ConfigError);
  Vit on_grid(parse_config<VitConfig>("preset: vit_tiny_patch16_224", "test"), at::kMeta);
  EXPECT_THROW(on_grid.forward(patches), ConfigError);
}

}  // namespace
}  // namespace fovea::models
