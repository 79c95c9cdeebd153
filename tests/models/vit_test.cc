#include "fovea/models/vit.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/nn/forward_context.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"
#include "tests/support/product_rows.h"
#include "tests/support/tolerance.h"

namespace fovea::models {
namespace {

VitConfig small() {
  VitConfig config;
  config.img_size = {16};
  config.patch_size = {4};
  config.in_chans = 1;
  config.num_classes = 3;
  config.embed_dim = 32;
  config.depth = 1;
  config.num_heads = 2;
  return config;
}

at::Tensor loss_of(Vit& model, const at::Tensor& images) {
  const auto labels = at::arange(images.size(0)) % 3;
  return at::cross_entropy_loss(model.forward(images).to(at::kFloat), labels);
}

TEST(VitTest, LearnsAFixedBatch) {
  Vit model(small());
  model.init_weights(1);
  const auto images = support::random({6, 1, 16, 16}, at::kFloat, 1);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 100; ++step) {
    const auto loss = loss_of(model, images);
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
    model.zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.sub_(parameter.grad() * 0.1);
  }
  EXPECT_NEAR(first, std::log(3.0), 0.5);
  EXPECT_LT(last, 0.5 * first);
}

// Options that add parameters, together.
std::vector<VitConfig> rich_configs() {
  auto registers = small();
  registers.reg_tokens = 2;
  registers.init_values = 0.1;
  registers.qk_norm = true;
  registers.scale_attn_norm = true;
  registers.scale_mlp_norm = true;
  registers.representation_size = 8;
  auto mapped = small();
  mapped.class_token = false;
  mapped.global_pool = "map";
  mapped.pre_norm = true;
  mapped.mlp_layer = "swiglu";
  auto averaged = small();
  averaged.global_pool = "avg";
  averaged.mlp_layer = "swiglu_packed";
  averaged.norm_layer = "rms_norm";
  averaged.pos_embed = "sincos_learn";
  auto distilled = small();
  distilled.distilled = true;
  auto volume = small();
  volume.img_size = {8, 8, 4};
  return {small(), registers, mapped, averaged, distilled, volume};
}

at::Tensor images_for(const VitConfig& config) {
  std::vector<int64_t> shape = {6, config.in_chans};
  for (const auto side : config.img_sides()) shape.push_back(side);
  return support::random(shape, at::kFloat, 1);
}

TEST(VitTest, GradientsReachEveryParameter) {
  for (const auto& config : rich_configs()) {
    Vit model(config);
    model.init_weights(1);
    loss_of(model, images_for(config)).backward();
    for (const auto& item : model.named_parameters()) {
      ASSERT_TRUE(item.value().grad().defined()) << item.key();
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << item.key();
    }
  }
}

TEST(VitTest, InBfloat16IsCloseToFloat32WithFloat32Gradients) {
  for (const auto& config : rich_configs()) {
    Vit model(config);
    model.init_weights(1);
    const auto images = images_for(config);
    const auto expected = model.forward(images);
    const auto logits = model.forward(images.to(at::kBFloat16));
    EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
    // Rounding to 8 bits at every layer of the way, not once.
    const auto off = (logits.to(at::kFloat) - expected).abs().max().item<double>();
    EXPECT_LT(off, 4 * support::Tolerance::for_dtype(at::kBFloat16).rtol *
                       expected.abs().max().item<double>());
    loss_of(model, images.to(at::kBFloat16)).backward();
    for (const auto& item : model.named_parameters()) {
      EXPECT_EQ(item.value().grad().scalar_type(), at::kFloat) << item.key();
      EXPECT_TRUE(at::isfinite(item.value().grad()).all().item<bool>()) << item.key();
    }
  }
}

TEST(VitTest, WeightsDependOnTheSeedAlone) {
  Vit first(small()), same(small()), other(small());
  first.init_weights(4);
  same.init_weights(4);
  other.init_weights(5);
  for (const auto& item : first.named_parameters()) {
    support::expect_same_bits(item.value(), same.named_parameters()[item.key()], item.key());
  }
  EXPECT_FALSE(
      first.named_parameters()["head.weight"].equal(other.named_parameters()["head.weight"]));
}

// timm's numbering (tools/golden/make_vit_layers.py).
TEST(VitTest, NumbersLayersAsTimmForLayerDecay) {
  std::ifstream stream(support::golden_path("vit_layers.json"));
  const auto golden = nlohmann::json::parse(stream);
  ASSERT_FALSE(golden.empty());
  for (const auto& [name, layers] : golden.items()) {
    SCOPED_TRACE(name);
    const auto model = build_named(name, at::kMeta);
    int64_t last = 0;
    for (const auto& item : model->named_parameters()) {
      const auto expected = layers.at(item.key()).get<int64_t>();
      EXPECT_EQ(model->layer_id(item.key()), expected) << item.key();
      last = std::max(last, expected);
    }
    EXPECT_EQ(model->num_layers(), last + 1);
  }
}

TEST(VitTest, ForwardIsFeaturesThenHead) {
  Vit model(small());
  model.init_weights(1);
  const auto images = images_for(small());
  const auto tokens = model.forward_features(images);
  EXPECT_EQ(tokens.sizes(), (at::IntArrayRef{6, 17, 32}));
  EXPECT_EQ(model.forward_head(tokens, /*pre_logits=*/true).sizes(), (at::IntArrayRef{6, 32}));
  const auto logits = model.forward_head(tokens), forward = model.forward(images);
  if (support::rows_have_own_bits()) {
    support::expect_same_bits(logits, forward, "logits");
  } else {
    support::expect_close(logits, forward, at::kFloat, "logits");
  }
}

// See Note [Tokens that are read]: what is given, and every gradient, is that of a last block that
// makes all tokens, as it does for somebody who records them.
TEST(VitTest, LastBlockMakesWhatTheHeadReads) {
  auto dropping = small();
  dropping.depth = 2;
  dropping.proj_drop_rate = 0.3;
  dropping.drop_path_rate = 0.5;
  dropping.init_values = 0.1;
  auto skipping = dropping;
  skipping.drop_path_skip = true;
  auto post_norm = small();
  post_norm.block_layer = "res_post_norm";
  auto configs = rich_configs();
  configs.insert(configs.end(), {dropping, skipping, post_norm});
  for (const auto& config : configs) {
    Vit model(config);
    model.init_weights(1);
    model.to(at::kDouble);
    const auto images = images_for(config).to(at::kDouble);
    std::vector<at::Tensor> logits;
    std::vector<torch::OrderedDict<std::string, at::Tensor>> gradients;
    for (const bool is_recording : {false, true}) {
      const nn::StepScope step(/*seed=*/1, /*step=*/3, at::arange(images.size(0)));
      std::optional<nn::RecordScope> record;
      if (is_recording) record.emplace(std::vector<std::string>{"blocks.0.mlp"});
      logits.push_back(model.forward(images));
      model.zero_grad();
      (logits.back() * support::random({6, 3}, at::kDouble, 2)).sum().backward();
      auto& found = gradients.emplace_back();
      for (const auto& item : model.named_parameters()) {
        if (item.value().requires_grad()) found.insert(item.key(), item.value().grad().clone());
      }
    }
    support::expect_close(logits[0], logits[1], at::kDouble, "logits");
    for (const auto& item : gradients[0]) {
      support::expect_close(item.value(), gradients[1][item.key()], at::kDouble, item.key());
    }
  }
}

// Which may do with fewer products: see Note [Keys and values that are not made].
TEST(VitTest, WithoutGradientsItGivesTheSame) {
  for (const auto& config : rich_configs()) {
    Vit model(config);
    model.init_weights(1);
    model.eval();
    uint64_t seed = 1;
    for (auto& parameter : model.parameters()) {  // biases too
      const at::NoGradGuard no_grad;
      parameter.add_(support::random(parameter.sizes().vec(), at::kFloat, ++seed), 0.1);
    }
    const auto images = images_for(config);
    const auto expected = model.forward(images).detach();
    const at::NoGradGuard no_grad;
    support::expect_close(model.forward(images), expected, at::kFloat, "logits");
    const auto one = images.narrow(0, 4, 1);
    support::expect_close(model.forward(one), expected.narrow(0, 4, 1), at::kFloat, "of one");
  }
}

// Joined in one pass without a gradient, and by operations one by one with it.
TEST(VitTest, TokensAreThePatchesBehindTheirPrefix) {
  auto configs = rich_configs();
  configs.push_back(small());
  configs.back().no_embed_class = true;
  configs.push_back(small());
  configs.back().pos_embed = "none";
  for (const auto& config : configs) {
    Vit model(config);
    model.init_weights(1);
    model.eval();
    const auto images = images_for(config);
    const auto recorded = model.add_prefix(model.embed_patches(images));
    EXPECT_TRUE(recorded.requires_grad());
    support::expect_same_bits(model.embed_tokens(images).detach(), recorded.detach(), "with it");
    const at::NoGradGuard no_grad;
    support::expect_same_bits(model.embed_tokens(images), recorded.detach(), "without a gradient");
  }
}

TEST(VitTest, FixedSinCosIsNotTrained) {
  auto config = small();
  config.pos_embed = "sincos";
  Vit model(config);
  model.init_weights(1);
  loss_of(model, images_for(config)).backward();
  const auto pos_embed = model.named_parameters()["pos_embed"];
  EXPECT_FALSE(pos_embed.requires_grad());
  EXPECT_FALSE(pos_embed.grad().defined());
  EXPECT_NE(pos_embed.abs().sum().item<double>(), 0.0);
}

TEST(VitTest, OneMeanServesOtherNumbersOfChannels) {
  auto config = small();
  config.input.mean = {0.2, 0.4, 0.6};
  EXPECT_THAT(Vit(config).input_spec().mean, testing::ElementsAre(testing::DoubleEq(0.4)));
}

TEST(VitTest, RefusesImagesOfAnotherSize) {
  Vit model(small());
  EXPECT_THROW(model.forward(support::random({1, 1, 16, 20}, at::kFloat, 1)), Error);
  EXPECT_THROW(model.forward(support::random({1, 3, 16, 16}, at::kFloat, 1)), Error);
  EXPECT_THROW(model.forward(support::random({1, 16, 16}, at::kFloat, 1)), Error);
}

TEST(VitTest, RefusesAConfigThatCannotWork) {
  auto config = small();
  config.num_heads = 5;
  EXPECT_THROW(Vit{config}, ConfigError);
}

// As plans and summaries have it: shapes without memory.
TEST(VitTest, RunsOnMeta) {
  for (const auto* name : {"vit_gigantic_patch14_224", "vit_so400m_patch16_siglip_256",
                           "vit_giant_patch14_reg4_dinov2", "test_vit4"}) {
    VitConfig config;
    config.apply_preset(name);
    config.num_classes = 7;
    Vit model(config, at::kMeta);
    for (const auto& parameter : model.parameters()) ASSERT_TRUE(parameter.is_meta());
    const auto side = config.img_size[0];
    const auto logits = model.forward(at::empty({2, 3, side, side}, at::device(at::kMeta)));
    EXPECT_TRUE(logits.is_meta());
    EXPECT_EQ(logits.sizes(), (at::IntArrayRef{2, 7})) << name;
  }
}

}  // namespace
}  // namespace fovea::models
