#include "fovea/hub/published_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::hub {
namespace {

using nlohmann::json;

PublishedModel model_of(const std::string& config, const std::string& preprocessor = "") {
  const auto parsed = parse_json(config, "config.json");
  if (preprocessor.empty()) return read_published_model(JsonValue(parsed, "config.json"), {});
  const auto other = parse_json(preprocessor, "preprocessor_config.json");
  return read_published_model(JsonValue(parsed, "config.json"), JsonValue(other, "preprocessor"));
}

TEST(PublishedModelTest, OfTimmItIsAPresetWithWhatDiffers) {
  const auto model = model_of(R"({
    "architecture": "vit_small_patch16_224", "num_classes": 21843, "num_features": 384,
    "global_pool": "token",
    "model_args": {"img_size": 240, "norm_layer": "layernorm", "init_values": null},
    "pretrained_cfg": {"tag": "t", "input_size": [3, 224, 224], "interpolation": "bicubic",
      "crop_pct": 0.9, "crop_mode": "center", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5],
      "first_conv": "patch_embed.proj", "classifier": "head", "pool_size": null}})");
  EXPECT_TRUE(model.is_preset);
  EXPECT_EQ(model.section, json::parse(R"({
    "preset": "vit_small_patch16_224", "num_classes": 21843, "global_pool": "token",
    "in_chans": 3, "img_size": 240, "norm_layer": "layer_norm",
    "input": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "crop_pct": 0.9,
      "crop_mode": "center", "interpolation": "bicubic"}})"));
}

TEST(PublishedModelTest, OfTransformersItIsAViTWithItsSizes) {
  const auto model = model_of(
      R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 192,
        "intermediate_size": 768, "num_hidden_layers": 12, "num_attention_heads": 3,
        "image_size": 224, "patch_size": 16, "num_channels": 3, "qkv_bias": true,
        "hidden_act": "gelu", "layer_norm_eps": 1e-12, "id2label": {"0": "cat", "1": "dog"}})",
      R"({"do_resize": true, "size": {"height": 224, "width": 224}, "resample": 2,
        "do_normalize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.4, 0.4, 0.4]})");
  EXPECT_FALSE(model.is_preset);
  EXPECT_FALSE(model.may_have_pooler);
  EXPECT_EQ(model.section, json::parse(R"({
    "name": "vit", "img_size": [224, 224], "patch_size": 16, "in_chans": 3, "embed_dim": 192,
    "depth": 12, "num_heads": 3, "qkv_bias": true, "act_layer": "gelu", "norm_eps": 1e-12,
    "mlp_ratio": 4.0, "num_classes": 2, "distilled": false,
    "input": {"mean": [0.5, 0.5, 0.5], "std": [0.4, 0.4, 0.4], "crop_pct": 1.0,
      "crop_mode": "squash", "interpolation": "bilinear"}})"));
  EXPECT_TRUE(model_of(R"({"model_type": "vit", "architectures": ["ViTModel"]})").may_have_pooler);
}

TEST(PublishedModelTest, OfDinov2ItIsTheFeaturesOfACrop) {
  const auto section =
      model_of(R"({"model_type": "dinov2_with_registers", "hidden_size": 384, "image_size": 518,
        "patch_size": 14, "num_register_tokens": 4, "layerscale_value": 1.0, "mlp_ratio": 4})",
               R"({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224},
        "do_center_crop": true, "resample": 3})")
          .section;
  EXPECT_EQ(section.at("reg_tokens"), 4);
  EXPECT_EQ(section.at("no_embed_class"), true);
  EXPECT_EQ(section.at("img_size"), json({224, 224}));
  EXPECT_EQ(section.at("num_classes"), 0);
  EXPECT_EQ(section.at("input").at("crop_pct"), 224.0 / 256);
  EXPECT_EQ(section.at("input").at("crop_mode"), "center");
  const auto giant = model_of(
      R"({"model_type": "dinov2", "hidden_size": 1536, "mlp_ratio": 4, "use_swiglu_ffn": true})");
  EXPECT_EQ(giant.section.at("mlp_ratio"), 2 * 4096.0 / 1536);
  EXPECT_EQ(giant.section.at("mlp_layer"), "swiglu_packed");
}

TEST(PublishedModelTest, OtherModelsAreRefused) {
  for (const auto* config :
       {"[]", "{}", R"({"model_type": "swin"})", R"({"model_type": 3})", R"({"architecture": 3})",
        R"({"architecture": "a", "model_args": {"A.b": 1}})",
        R"({"architecture": "a", "model_args": {"input": {}}})",
        R"({"architecture": "a", "pretrained_cfg": {"input_size": [3]}})",
        R"({"model_type": "dinov2", "architectures": ["Dinov2ForImageClassification"]})",
        R"({"model_type": "vit", "hidden_size": 0, "intermediate_size": 4})",
        R"({"model_type": "dinov2", "hidden_size": 8, "mlp_ratio": -1, "use_swiglu_ffn": true})"}) {
    EXPECT_THROW(model_of(config), DataError) << config;
  }
  for (const auto* preprocessor : {R"({"size": {}})", R"({"size": -1})", R"({"resample": 1})",
                                   R"({"size": 0})", R"({"size": 100, "crop_size": 200})"}) {
    EXPECT_THROW(model_of(R"({"model_type": "vit"})", preprocessor), DataError) << preprocessor;
  }
}

}  // namespace
}  // namespace fovea::hub
