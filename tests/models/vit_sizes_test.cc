// The table of presets against timm (tools/golden/make_vit_presets.py). Models are built on the
// meta device: nothing is allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <regex>

#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/vit.h"
#include "tests/support/golden.h"

namespace fovea::models {
namespace {

using OrderedJson = nlohmann::ordered_json;  // parameters in registration order

const OrderedJson& timm_presets() {
  static const OrderedJson presets = [] {
    std::ifstream stream(support::golden_path("vit_presets.json"));
    return OrderedJson::parse(stream);
  }();
  return presets;
}

int64_t count_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const auto& parameter : model.parameters()) count += parameter.numel();
  return count;
}

TEST(VitSizesTest, ListsThePresetsOfTheGolden) {
  std::vector<std::string> expected;
  for (const auto& item : timm_presets().items()) expected.push_back(item.key());
  EXPECT_THAT(VitConfig::preset_names(), testing::UnorderedElementsAreArray(expected));
}

TEST(VitSizesTest, HaveTimmsParameters) {
  for (const auto& [name, expected] : timm_presets().items()) {
    SCOPED_TRACE(name);
    const auto model = build_named(name, at::kMeta);
    EXPECT_EQ(count_parameters(*model), expected["count"].get<int64_t>());
    const auto depth = expected["depth"].get<int64_t>();
    OrderedJson found = OrderedJson::object();
    int64_t num_block_parameters = 0;
    for (const auto& item : model->named_parameters()) {
      std::smatch match;
      static const std::regex kBlock("blocks\\.(\\d+)\\.(.*)");
      auto key = item.key();
      if (std::regex_match(key, match, kBlock)) {
        ++num_block_parameters;
        key = "blocks.*." + match[2].str();
      }
      const auto shape = OrderedJson(item.value().sizes().vec());
      EXPECT_TRUE(!found.contains(key) || found[key] == shape) << key;
      found[key] = shape;
    }
    EXPECT_EQ(found, expected["parameters"]);
    EXPECT_EQ(model->layer_id("blocks." + std::to_string(depth - 1) + ".norm1.weight"), depth);
    EXPECT_EQ(num_block_parameters % depth, 0);
  }
}

TEST(VitSizesTest, HaveTimmsOptions) {
  for (const auto& [name, row] : timm_presets().items()) {
    SCOPED_TRACE(name);
    VitConfig config;
    ASSERT_TRUE(config.apply_preset(name));
    const auto& expected = row["config"];
    EXPECT_EQ(config.num_classes, expected["num_classes"]);
    EXPECT_EQ(config.num_heads, expected["num_heads"]);
    EXPECT_EQ(config.norm_eps, expected["norm_eps"]);
    EXPECT_EQ(config.act_layer, expected["act_layer"]);
    EXPECT_EQ(config.init_values ? OrderedJson(*config.init_values) : OrderedJson(),
              expected["init_values"]);
    EXPECT_EQ(config.global_pool, expected["global_pool"]);
    EXPECT_EQ(config.no_embed_class, expected["no_embed_class"]);
    EXPECT_EQ(config.pool_include_prefix, expected["pool_include_prefix"]);
    EXPECT_EQ(config.dynamic_img_size, expected["dynamic_img_size"]);
    ConfigIssues issues;
    config.validate(issues);
    EXPECT_TRUE(issues.all().empty());
  }
}

TEST(VitSizesTest, ExpectTimmsInput) {
  for (const auto& [name, expected] : timm_presets().items()) {
    SCOPED_TRACE(name);
    const auto spec = build_named(name, at::kMeta)->input_spec();
    const auto& input = expected["input"];
    EXPECT_EQ(OrderedJson(spec.img_size), input["img_size"]);
    EXPECT_EQ(OrderedJson(spec.mean), input["mean"]);
    EXPECT_EQ(OrderedJson(spec.std), input["std"]);
    EXPECT_EQ(OrderedJson(spec.crop_pct), input["crop_pct"]);
    EXPECT_EQ(OrderedJson(spec.interpolation), input["interpolation"]);
  }
}

TEST(VitSizesTest, LeaveTimmsParametersOutOfWeightDecay) {
  for (const auto& [name, expected] : timm_presets().items()) {
    const auto want = expected["no_weight_decay"].get<std::vector<std::string>>();
    EXPECT_THAT(build_named(name, at::kMeta)->no_weight_decay(),
                testing::UnorderedElementsAreArray(want))
        << name;
  }
}

// Counts as published, with the ImageNet head.
TEST(VitSizesTest, HaveThePublishedNumbersOfParameters) {
  const std::vector<std::pair<const char*, int64_t>> published = {
      {"vit_tiny_patch16_224", 5'717'416},        {"vit_small_patch16_224", 22'050'664},
      {"vit_base_patch16_224", 86'567'656},       {"vit_large_patch16_224", 304'326'632},
      {"vit_huge_patch14_224", 632'045'800},      {"vit_giant_patch14_224", 1'012'611'432},
      {"vit_gigantic_patch14_224", 1'844'440'680}};
  for (const auto& [name, count] : published) {
    VitConfig config;
    ASSERT_TRUE(config.apply_preset(name));
    config.num_classes = 1000;
    EXPECT_EQ(count_parameters(Vit(config, at::kMeta)), count) << name;
  }
  EXPECT_EQ(count_parameters(*build_named("vit_large_patch14_reg4_dinov2", at::kMeta)),
            304'370'688);
  EXPECT_EQ(count_parameters(*build_named("vit_giant_patch14_dinov2", at::kMeta)), 1'136'479'232);
}

TEST(VitSizesTest, AreTheNamesOfTheRegistry) {
  VitConfig config;
  EXPECT_FALSE(config.apply_preset("resnet50"));
  try {
    build_named("vit_tiny_patch16_225", at::kMeta);
    ADD_FAILURE() << "no such preset";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean vit_tiny_patch16_224?"));
  }
}

}  // namespace
}  // namespace fovea::models
