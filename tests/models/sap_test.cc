// SAP against transposed convolutions on a square of patches, as UCF-VIT decodes, and against
// UCF-VIT's own SAP.
#include "fovea/models/sap.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/model_config.h"
#include "fovea/models/weights.h"
#include "tests/models/ucf_golden.h"
#include "tests/support/close.h"
#include "tests/support/fields_from_json.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using ::testing::HasSubstr;

class SapParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SapParityTest, EqualsConvolutionsOnASquareOfPatches) {
  const auto golden = support::load_golden(std::string("sap_") + GetParam() + ".safetensors");
  Sap model(support::config_from_json<SapConfig>(golden.config));
  model.to(at::kDouble);
  const auto weights = golden.group("weights");
  const auto parameters = model.named_parameters();
  ASSERT_EQ(parameters.size(), weights.size());
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, weight] : weights) parameters[name].copy_(weight);
  }
  const auto logits = model.forward(PatchInput{.tokens = golden.at("tokens"),
                                               .sizes = golden.at("sizes"),
                                               .centers = golden.at("centers"),
                                               .padding = golden.at("padding").to(at::kBool)});
  const auto slope = at::linspace(0.5, 1.5, logits.numel(), at::kFloat).to(at::kDouble);
  const auto loss = (logits.square() * slope.view_as(logits)).mean();
  loss.backward();
  support::NamedTensors gradients;
  for (const auto& item : model.named_parameters()) gradients[item.key()] = item.value().grad();
  const support::NamedTensors outputs = {{"logits", logits}, {"loss", loss}};
  const support::NamedTensors expected = {{"logits", golden.at("logits")},
                                          {"loss", golden.at("loss")}};
  EXPECT_PARITY(outputs, expected, at::kDouble);
  EXPECT_PARITY(gradients, golden.group("gradients"), at::kDouble);
}

INSTANTIATE_TEST_SUITE_P(Goldens, SapParityTest, ::testing::Values("2d", "3d"),
                         [](const auto& info) { return std::string(info.param); });

class UcfSapParityTest : public ::testing::TestWithParam<const char*> {};

TEST_P(UcfSapParityTest, EqualsUcfVit) {
  const auto golden = support::load_golden(std::string("ucf_sap_") + GetParam() + ".safetensors");
  Sap model(ucf::config<SapConfig>(golden));
  load_weights(model, ucf::tensors(golden.group("weights")), "golden");
  const auto run = ucf::run(model, golden);
  EXPECT_PARITY(run.outputs, ucf::expected_outputs(golden), at::kFloat);
  EXPECT_PARITY(run.gradients, ucf::expected_gradients(golden, /*is_adaptive=*/true), at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(Goldens, UcfSapParityTest,
                         ::testing::Values("2d", "2d_learn", "3d", "2d_variables", "3d_single"),
                         [](const auto& info) { return "Case" + std::string(info.param); });

SapConfig parse_sap(const std::string& yaml) { return parse_config<SapConfig>(yaml, "test"); }

// Not a square number of patches, which UCF-VIT's convolutions need.
SapConfig small_sap() {
  return parse_sap(
      "encoder: {img_size: 32, patch_size: 4, in_chans: 1, embed_dim: 16, depth: 2, num_heads: 2, "
      "fixed_length: 7}\nnum_classes: 3\ndecoder_dim: 8");
}

PatchInput random_patches(int64_t length) {
  return {.tokens = at::randn({2, 1, length, 16}),
          .sizes = at::randn({2, 1, length}).abs() * 8,
          .centers = at::randn({2, 1, length, 2}).abs() * 15,
          .padding = at::zeros({2, 1, length}, at::kBool)};
}

TEST(SapTest, GradientsReachEveryParameterFromItsStart) {
  Sap model(small_sap());
  model.init_weights(1);
  const auto logits = model.forward(random_patches(7));
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 3, 7, 16}));
  logits.square().sum().backward();
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0.0) << item.key();
  }
}

struct SapRecipe {
  ModelConfig model;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
  }
};

TEST(SapTest, IsBuiltFromARecipe) {
  const auto recipe = parse_config<SapRecipe>("model: {name: sap, encoder: {depth: 3}}", "test");
  const auto* sap = recipe.model.get_if<SapConfig>();
  ASSERT_NE(sap, nullptr);
  EXPECT_TRUE(sap->encoder.vit.is_adaptive());
  EXPECT_EQ(sap->encoder.vit.depth, 3);
}

TEST(SapTest, RefusesAGridAndImages) {
  try {
    parse_sap("encoder: {patching: grid, pos_embed: learn}");
    ADD_FAILURE() << "took a grid";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("unetr"));
  }
  Sap model(small_sap());
  EXPECT_THROW(model.forward(at::zeros({1, 1, 32, 32})), ConfigError);
  EXPECT_THROW(model.forward(random_patches(9)), ConfigError);
}

}  // namespace
}  // namespace fovea::models
