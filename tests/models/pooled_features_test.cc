// What a linear probe and k-NN ask of every model: features of a sample, and a head on them.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/vit.h"
#include "fovea/nn/forward_context.h"
#include "tests/support/close.h"

namespace fovea::models {
namespace {

struct OneModelConfig {
  ModelConfig model;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
  }
};

ModelPtr perturbed_model(const std::string& keys) {
  const auto config = parse_config<OneModelConfig>("model: {" + keys + "}", "test");
  auto model = build_model(config.model);
  model->init_weights(3);
  for (auto& item : model->named_parameters()) {  // heads start from zeros in places
    const at::NoGradGuard no_grad;
    item.value().add_(support::random(item.value().sizes().vec(), at::kFloat, 5), 0.1);
  }
  model->eval();
  return model;
}

constexpr const char* kTiny =
    "img_size: 16, patch_size: 8, in_chans: 3, num_classes: 5, embed_dim: 24, depth: 2, "
    "num_heads: 2";

at::Tensor images() { return support::random({3, 3, 16, 16}, at::kFloat, 1); }

TEST(PooledFeaturesTest, TheHeadOnThemIsTheWholeModel) {
  for (const std::string keys :
       {"global_pool: token", "global_pool: avg, reg_tokens: 4", "global_pool: map",
        "global_pool: avgmax", "representation_size: 12", "drop_rate: 0.5, logits_scale: 0.125"}) {
    const auto model = perturbed_model(std::string("name: vit, ") + kTiny + ", " + keys);
    ASSERT_TRUE(model->has_classifier()) << keys;
    const auto features = model->pooled_features(images());
    EXPECT_EQ(features.sizes(), (at::IntArrayRef{3, model->num_features()})) << keys;
    support::expect_same_bits(model->classify(features), model->forward(images()), keys);
  }
  const auto t2t = perturbed_model(
      "name: t2t_vit, img_size: 32, in_chans: 3, num_classes: 5, token_dim: 8, embed_dim: 24, "
      "depth: 2, num_heads: 3");
  const auto large = support::random({2, 3, 32, 32}, at::kFloat, 1);
  support::expect_same_bits(t2t->classify(t2t->pooled_features(large)), t2t->forward(large), "t2t");
}

TEST(PooledFeaturesTest, LogitsAreScaledAndNothingElse) {
  const auto plain = perturbed_model(std::string("name: vit, ") + kTiny);
  const auto scaled = perturbed_model(std::string("name: vit, logits_scale: 0.125, ") + kTiny);
  support::expect_same_bits(scaled->forward(images()), plain->forward(images()) * 0.125, "logits");
  support::expect_same_bits(scaled->pooled_features(images()), plain->pooled_features(images()),
                            "features");
}

TEST(PooledFeaturesTest, TheHeadDrawsItsDropoutInTraining) {
  const auto model = perturbed_model(std::string("name: vit, drop_rate: 0.5, ") + kTiny);
  const auto features = model->pooled_features(images());
  const auto calm = model->classify(features);
  model->train();
  const nn::StepScope scope(1, 2, at::arange(3));
  EXPECT_FALSE(model->classify(features).equal(calm));
  support::expect_same_bits(model->classify(features), model->classify(features), "one step");
}

TEST(PooledFeaturesTest, EncodersGiveTheirClassTokenOrTheMean) {
  const auto with_token = perturbed_model(
      "name: mae, encoder: {img_size: 16, patch_size: 8, embed_dim: 24, depth: 1, num_heads: 2}, "
      "decoder_embed_dim: 16, decoder_depth: 1, decoder_num_heads: 2");
  auto* encoder = &static_cast<EncoderModel&>(*with_token).encoder();
  support::expect_same_bits(with_token->pooled_features(images()),
                            encoder->forward_features(images()).select(1, 0), "class token");
  EXPECT_FALSE(with_token->has_classifier());
  const auto without = perturbed_model(
      "name: mae, encoder: {img_size: 16, patch_size: 8, embed_dim: 24, depth: 1, num_heads: 2, "
      "class_token: false}, decoder_embed_dim: 16, decoder_depth: 1, decoder_num_heads: 2");
  encoder = &static_cast<EncoderModel&>(*without).encoder();
  support::expect_same_bits(without->pooled_features(images()),
                            encoder->forward_features(images()).mean(1), "mean");
}

TEST(PooledFeaturesTest, PaddingOfAdaptivePatchesIsNoPartOfThem) {
  for (const std::string keys :
       {"class_token: false, global_pool: avg", "class_token: true, global_pool: token"}) {
    const auto model = perturbed_model(
        "name: vit, patching: adaptive, fixed_length: 6, img_size: 16, patch_size: 4, in_chans: 3, "
        "num_classes: 5, embed_dim: 24, depth: 2, num_heads: 2, pos_embed: none, " +
        keys);
    PatchInput patches{.tokens = support::random({2, 3, 6, 16}, at::kFloat, 1),
                       .sizes = at::full({2, 1, 6}, 4.0f),
                       .centers = at::zeros({2, 1, 6, 2}),
                       .padding = at::zeros({2, 1, 6}, at::kBool)};
    patches.padding.narrow(2, 4, 2).fill_(true);
    const auto features = model->pooled_features(patches);
    support::expect_same_bits(model->classify(features), model->forward(patches), keys);
    patches.tokens.narrow(2, 4, 2).fill_(100);
    EXPECT_TRUE(features.allclose(model->pooled_features(patches), 0, 0)) << keys;
    EXPECT_THROW(model->pooled_features(images()), ConfigError);
  }
}

TEST(PooledFeaturesTest, ModelsWithoutThemSayWhatIsExpected) {
  const auto unpooled = perturbed_model(std::string("name: vit, global_pool: '', ") + kTiny);
  EXPECT_EQ(unpooled->num_features(), 0);
  EXPECT_FALSE(unpooled->has_classifier());
  EXPECT_THROW(unpooled->pooled_features(images()), ConfigError);
  const auto distilled = perturbed_model(std::string("name: vit, distilled: true, ") + kTiny);
  EXPECT_FALSE(distilled->has_classifier());
  EXPECT_EQ(distilled->pooled_features(images()).sizes(), (at::IntArrayRef{3, 24}));
  const auto headless = perturbed_model(
      "name: vit, img_size: 16, patch_size: 8, num_classes: 0, embed_dim: 24, depth: 1, "
      "num_heads: 2");
  EXPECT_FALSE(headless->has_classifier());
  EXPECT_THROW(headless->classify(headless->pooled_features(images())), ConfigError);
  const auto diffusion = perturbed_model(
      "name: diffusion_vit, encoder: {img_size: 16, patch_size: 8, embed_dim: 24, depth: 1, "
      "num_heads: 2}");
  EXPECT_EQ(diffusion->num_features(), 0);
  EXPECT_THROW(diffusion->pooled_features(images()), ConfigError);
}

}  // namespace
}  // namespace fovea::models
