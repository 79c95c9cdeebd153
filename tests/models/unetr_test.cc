// UNETR by itself: shapes, names, step-0 weights, what it refuses.
#include "fovea/models/unetr.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>

#include <set>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::models {
namespace {

UnetrConfig tiny_unetr(int64_t sides) {
  UnetrConfig config;
  config.encoder.vit.img_size = std::vector<int64_t>(static_cast<size_t>(sides), 16);
  config.encoder.vit.patch_size = {4};
  config.encoder.vit.in_chans = 2;
  config.encoder.vit.embed_dim = 12;
  config.encoder.vit.depth = 4;
  config.encoder.vit.num_heads = 2;
  config.num_classes = 3;
  config.feature_size = 2;
  return config;
}

at::Tensor tiny_images(int64_t sides) {
  std::vector<int64_t> shape(static_cast<size_t>(sides) + 2, 16);
  shape[0] = shape[1] = 2;
  return support::random(shape, at::kFloat, 1);
}

std::vector<UnetrConfig> tiny_unetrs() {
  std::vector<UnetrConfig> configs;
  for (const int64_t sides : {2, 3}) {
    configs.push_back(tiny_unetr(sides));
    auto no_skips = tiny_unetr(sides);
    no_skips.skip_connection = false;
    configs.push_back(no_skips);
    auto linear = tiny_unetr(sides);
    linear.linear_decoder = true;
    configs.push_back(linear);
    auto resized = tiny_unetr(sides);
    resized.upsample = "resize";
    resized.encoder.vit.reg_tokens = 2;
    configs.push_back(resized);
  }
  return configs;
}

TEST(UnetrTest, GivesEveryPixelEveryClassAndEveryParameterAGradient) {
  for (const auto& config : tiny_unetrs()) {
    Unetr model(config);
    model.init_weights(1);
    const auto images = tiny_images(static_cast<int64_t>(config.encoder.vit.img_sides().size()));
    const auto logits = model.forward(images);
    auto shape = images.sizes().vec();
    shape[1] = 3;
    EXPECT_EQ(logits.sizes(), at::IntArrayRef(shape));
    logits.square().sum().backward();
    for (const auto& item : model.named_parameters()) {
      const auto& name = item.key();
      // Prefix tokens end with the last block where only patches are read.
      ASSERT_TRUE(item.value().grad().defined()) << name;
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << name;
      EXPECT_LT(model.layer_id(name), model.num_layers()) << name;
    }
  }
}

TEST(UnetrTest, StepZeroWeightsAreAFunctionOfTheSeed) {
  Unetr first(tiny_unetr(3)), same(tiny_unetr(3)), other(tiny_unetr(3));
  first.init_weights(1);
  same.init_weights(1);
  other.init_weights(2);
  for (const auto& item : first.named_parameters()) {
    support::expect_same_bits(same.named_parameters()[item.key()], item.value(), item.key());
  }
  const auto weight = [](Unetr& model) {
    return model.named_parameters()["decoder3.conv_block.conv1.conv.weight"];
  };
  EXPECT_FALSE(weight(first).equal(weight(other)));
  EXPECT_GT(weight(first).abs().max().item<double>(), 0);
}

TEST(UnetrTest, LearnsAFixedBatch) {
  Unetr model(tiny_unetr(2));
  model.init_weights(1);
  const auto images = tiny_images(2);
  const auto labels = images.select(1, 0).gt(0).to(at::kLong);
  double first = 0.0, last = 0.0;
  for (int step = 0; step < 30; ++step) {
    const auto loss = at::cross_entropy_loss(model.forward(images), labels);
    if (step == 0) first = loss.item<double>();
    last = loss.item<double>();
    model.zero_grad();
    loss.backward();
    const at::NoGradGuard no_grad;
    for (auto& parameter : model.parameters()) parameter.sub_(parameter.grad() * 0.3);
  }
  EXPECT_LT(last, 0.6 * first);
}

TEST(UnetrTest, TakesOtherSizesWithADynamicEncoder) {
  auto config = tiny_unetr(2);
  config.encoder.vit.dynamic_img_size = true;
  Unetr model(config);
  model.init_weights(1);
  const auto logits = model.forward(support::random({1, 2, 24, 8}, at::kFloat, 1));
  EXPECT_EQ(logits.sizes(), (at::IntArrayRef{1, 3, 24, 8}));
  EXPECT_THROW(model.forward(support::random({1, 2, 22, 8}, at::kFloat, 1)), Error);
}

TEST(UnetrTest, RefusesImagesOfAnotherSize) {
  Unetr model(tiny_unetr(2));
  model.init_weights(1);
  EXPECT_THROW(model.forward(support::random({1, 2, 20, 16}, at::kFloat, 1)), Error);
}

std::string issue_of(const UnetrConfig& config) {
  try {
    const Unetr model(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(UnetrConfigTest, NamesWhatDoesNotFit) {
  auto config = tiny_unetr(3);
  config.encoder.vit.img_size = {16, 18, 16};
  config.encoder.vit.crop_to_patches = true;
  EXPECT_NE(issue_of(config).find("no multiple of the patch size 4"), std::string::npos);
  EXPECT_NE(issue_of(config).find("crop_to_patches"), std::string::npos);
  config = tiny_unetr(3);
  config.encoder.vit.depth = 3;
  EXPECT_NE(issue_of(config).find("quarters"), std::string::npos);
  config.skip_connection = false;
  EXPECT_EQ(issue_of(config), "");
  config.encoder.vit.patch_drop_rate = 0.5;
  EXPECT_NE(issue_of(config).find("drops tokens"), std::string::npos);
}

// Upsampling ends at full size for every patch size, and is four doublings for 16.
TEST(UnetrConfigTest, StridesMakeUpThePatch) {
  for (const int64_t patch : {1, 2, 4, 8, 16, 32, 64, 256}) {
    auto config = tiny_unetr(2);
    config.encoder.vit.patch_size = {patch};
    int64_t product = 1;
    for (const auto& stride : config.strides()) product *= stride[0];
    EXPECT_EQ(product, patch);
    EXPECT_FALSE(config.is_resized());
  }
  auto config = tiny_unetr(2);
  config.encoder.vit.patch_size = {16};
  for (const auto& stride : config.strides()) EXPECT_EQ(stride, (std::vector<int64_t>{2, 2}));
  config.encoder.vit.patch_size = {14};
  EXPECT_TRUE(config.is_resized());
}

}  // namespace
}  // namespace fovea::models
