#include "fovea/models/vit_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/model_config.h"

namespace fovea::models {
namespace {

using testing::HasSubstr;

VitConfig parse(const std::string& yaml) { return parse_config<VitConfig>(yaml, "test"); }

std::string faults(const std::string& yaml) {
  try {
    parse(yaml);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(VitConfigTest, TakesOneSideOrAll) {
  EXPECT_EQ(parse("img_size: 28\npatch_size: 7").img_sides(), (std::vector<int64_t>{28, 28}));
  EXPECT_EQ(parse("img_size: [32, 64]").patch_sides(), (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(parse("img_size: [8, 16, 16]\npatch_size: 4").patch_sides(),
            (std::vector<int64_t>{4, 4, 4}));
  EXPECT_EQ(parse("img_size: 16\npatch_size: [2, 4, 4]").img_sides(),
            (std::vector<int64_t>{16, 16, 16}));
}

TEST(VitConfigTest, APresetSetsWhatOtherKeysChange) {
  const auto config = parse("preset: vit_small_patch14_reg4_dinov2\nnum_classes: 10");
  EXPECT_EQ(config.embed_dim, 384);
  EXPECT_EQ(config.reg_tokens, 4);
  EXPECT_EQ(config.num_classes, 10);
  EXPECT_THAT(faults("preset: vit_smal_patch16_224"),
              HasSubstr("did you mean vit_small_patch16_224"));
}

TEST(VitConfigTest, EveryPresetSurvivesDumpAndParse) {
  for (const auto& name : VitConfig::preset_names()) {
    VitConfig config;
    config.apply_preset(name);
    const auto text = dump_config(config);
    EXPECT_EQ(dump_config(parse(text)), text) << name;
    EXPECT_TRUE(config_diff(parse(text), config).empty()) << name;
  }
}

struct RecipeConfig {
  ModelConfig model;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
  }
};

TEST(VitConfigTest, IsTheModelThatRecipesName) {
  const auto recipe = parse_config<RecipeConfig>(
      "model: {name: vit, preset: vit_tiny_patch16_224, img_size: 32}", "test");
  EXPECT_EQ(recipe.model.name(), "vit");
  EXPECT_EQ(recipe.model.get_if<VitConfig>()->embed_dim, 192);
}

TEST(VitConfigTest, SaysWhatDoesNotFitAndWhatWould) {
  EXPECT_THAT(faults("embed_dim: 100\nnum_heads: 3"),
              HasSubstr("num_heads 3 does not divide embed_dim 100; use one of 1, 2, 4, 5, 10"));
  EXPECT_THAT(
      faults("img_size: 225"),
      HasSubstr("img_size 225 is not divisible by patch_size 16; use a multiple such as 224"));
  EXPECT_THAT(faults("img_size: 8"), HasSubstr("use a multiple such as 16"));
  EXPECT_THAT(faults("img_size: [8, 8, 8, 8]\npatch_size: 2"), HasSubstr("has 4 sides"));
  EXPECT_THAT(faults("img_size: [16, 16]\npatch_size: [2, 2, 2]"), HasSubstr("has 2 sides"));
  EXPECT_THAT(faults("class_token: false"), HasSubstr("use avg or map, or class_token: true"));
  EXPECT_THAT(faults("pos_embed: sincos\nembed_dim: 30\nnum_heads: 2"),
              HasSubstr("expected an embed_dim divisible by 4"));
  EXPECT_THAT(faults("mlp_layer: swiglu_packed\nembed_dim: 9\nnum_heads: 3\nmlp_ratio: 1"),
              HasSubstr("gives 9 hidden features"));
  EXPECT_THAT(faults("weight_init: jax_nlhb\nnum_classes: 0"), HasSubstr("use jax"));
  EXPECT_THAT(faults("distilled: true\nreg_tokens: 2"), HasSubstr("distilled reads"));
  EXPECT_THAT(faults("global_pool: ''\nrepresentation_size: 4"), HasSubstr("use a pooling"));
}

// What a form of block has no place for is not dropped without a word.
TEST(VitConfigTest, FormsOfBlocksSayWhatTheyHaveNotGot) {
  const std::string scaling = "block_layer: parallel_scaling\n";
  EXPECT_THAT(faults(scaling + "scale_attn_norm: true"), HasSubstr("scale_attn_norm true with"));
  EXPECT_THAT(faults(scaling + "scale_mlp_norm: true"), HasSubstr("expected false"));
  EXPECT_THAT(faults(scaling + "mlp_layer: swiglu"), HasSubstr("expected mlp"));
  EXPECT_THAT(faults("block_layer: parallel_things\nfix_init: true"), HasSubstr("expected false"));
  EXPECT_THAT(faults("attn_layer: diff\nembed_dim: 9\nnum_heads: 3"),
              HasSubstr("expected an embed_dim divisible by 6"));
  EXPECT_THAT(faults("embed_norm: true\npatching: adaptive"), HasSubstr("patch_norm"));
  EXPECT_EQ(faults(scaling + "attn_layer: diff"), "no fault");
}

TEST(VitConfigTest, ReportsAllFaultsAtOnce) {
  const auto text = faults("embed_dim: 100\nnum_heads: 3\nimg_size: 30\ndrop_rate: 1.5\nheads: 2");
  for (const auto* part : {"num_heads 3", "img_size 30", "drop_rate: found 1.5", "heads"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(VitConfigTest, CropOrPadTakeAnyImage) {
  EXPECT_EQ(faults("img_size: 225\ncrop_to_patches: true"), "no fault");
  EXPECT_EQ(faults("img_size: 225\ndynamic_img_pad: true"), "no fault");
  EXPECT_THAT(faults("img_size: 8\ncrop_to_patches: true"), HasSubstr("img_size 8"));
}

}  // namespace
}  // namespace fovea::models
