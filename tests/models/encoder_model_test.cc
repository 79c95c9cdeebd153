#include "fovea/models/encoder_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/nn/forward_context.h"
#include "tests/support/close.h"

namespace fovea::models {
namespace {

using testing::Contains;
using testing::HasSubstr;

// An encoder and one linear layer.
class Projected : public EncoderModel {
 public:
  explicit Projected(const EncoderConfig& config) : EncoderModel(config, at::kCPU) {
    proj_ = register_module(
        "proj", nn::Linear(config.vit.embed_dim, 3, /*has_bias=*/true, at::Device(at::kCPU)));
    nn::assign_names(*this);
  }
  std::string_view recipe_name() const override { return "projected"; }
  at::Tensor forward(const ModelInput& images) const override {
    return run([&] { return proj_(encoder().forward_features(images)); });
  }

 protected:
  nn::ParameterInit own_init(const std::string& name, at::IntArrayRef shape) const override {
    return nn::vit_init(name, shape, {});
  }
  std::vector<std::string> own_no_weight_decay() const override { return {"proj.weight"}; }

 private:
  nn::Linear proj_ = nullptr;
};

EncoderConfig parse_encoder(const std::string& yaml) {
  return parse_config<EncoderConfig>(yaml, "test");
}

EncoderConfig small_encoder() {
  return parse_encoder(
      "img_size: 8\npatch_size: 4\nin_chans: 1\nembed_dim: 8\ndepth: 3\nnum_heads: 2");
}

TEST(EncoderConfigTest, HasNoKeysOfTheHead) {
  for (const std::string key : {"num_classes: 4", "global_pool: avg", "representation_size: 2"}) {
    try {
      parse_encoder(key);
      ADD_FAILURE() << "took " << key;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("unknown key"));
    }
  }
}

TEST(EncoderConfigTest, APresetLosesItsHead) {
  const auto config = parse_encoder("preset: vit_base_patch16_siglip_224\nimg_size: 64");
  EXPECT_EQ(config.vit.embed_dim, 768);
  EXPECT_EQ(config.vit.num_classes, 0);
  EXPECT_EQ(config.vit.global_pool, "");
  EXPECT_EQ(config.vit.img_size, std::vector<int64_t>{64});
}

TEST(EncoderModelTest, ItsEncoderIsTheViTOfTheSameSeed) {
  Projected model(small_encoder());
  model.init_weights(5);
  Vit vit(small_encoder().vit);
  vit.init_weights(5);
  const auto parameters = model.named_parameters();
  for (const auto& item : vit.named_parameters()) {
    support::expect_same_bits(parameters["encoder." + item.key()], item.value(), item.key());
    EXPECT_TRUE(model.is_backbone("encoder." + item.key()));
    EXPECT_EQ(model.layer_id("encoder." + item.key()), vit.layer_id(item.key()));
  }
  EXPECT_EQ(parameters.size(), vit.named_parameters().size() + 2);
  EXPECT_FALSE(model.is_backbone("proj.weight"));
  EXPECT_EQ(model.layer_id("proj.weight"), model.num_layers() - 1);
  EXPECT_GT(parameters["proj.weight"].abs().max().item<double>(), 0.0);
  EXPECT_THAT(model.no_weight_decay(), Contains("encoder.pos_embed"));
  EXPECT_THAT(model.no_weight_decay(), Contains("proj.weight"));
}

TEST(EncoderModelTest, TapsAreTheTokensAfterBlocks) {
  Vit vit(small_encoder().vit);
  vit.init_weights(5);
  const auto images = support::random({2, 1, 8, 8}, at::kFloat, 1);
  const auto tokens = vit.add_prefix(vit.embed_patches(images));  // [2, 5, 8]
  EXPECT_EQ(tokens.sizes(), (std::vector<int64_t>{2, 5, 8}));
  std::vector<at::Tensor> tapped;
  const auto features = vit.encode(tokens, {0, 2}, &tapped);
  support::expect_same_bits(features, vit.forward_features(images), "features");
  ASSERT_EQ(tapped.size(), 2u);
  nn::RecordScope recorder({"blocks.0", "blocks.2"});
  vit.forward_features(images);
  std::map<std::string, at::Tensor> recorded(recorder.intermediates().begin(),
                                             recorder.intermediates().end());
  support::expect_same_bits(tapped[0], recorded.at("blocks.0"), "blocks.0");
  support::expect_same_bits(tapped[1], recorded.at("blocks.2"), "blocks.2");
  std::vector<at::Tensor> none;
  EXPECT_THROW(vit.encode(tokens, {2, 0}, &none), Error);
  EXPECT_THROW(vit.encode(tokens, {3}, &none), Error);
}

}  // namespace
}  // namespace fovea::models
