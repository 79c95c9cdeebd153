#include "fovea/models/timm_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/models/registry.h"

namespace fovea::models {
namespace {

TEST(TimmWeightsTest, NamesAreThoseOfTimmAndOfModelsHere) {
  const auto golden =
      parse_json(read_file(FOVEA_SOURCE_DIR "/tests/golden/timm_tags.json", 1 << 20), "golden");
  const auto names = list_timm_weights();
  EXPECT_GT(names.size(), 300u);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const auto& name : names) {
    EXPECT_TRUE(golden.contains(name)) << name;
    EXPECT_TRUE(is_model_name(name.substr(0, name.find('.')))) << name;
    EXPECT_THAT(timm_repository(name), testing::StartsWith("timm/"));
  }
}

TEST(TimmWeightsTest, APresetStandsForItsFirstTag) {
  EXPECT_EQ(timm_repository("vit_small_patch16_224"),
            "timm/vit_small_patch16_224.augreg_in21k_ft_in1k");
  EXPECT_EQ(timm_repository("vit_small_patch16_224.dino"), "timm/vit_small_patch16_224.dino");
  EXPECT_EQ(timm_repository("vit_base_patch32_clip_quickgelu_224"),
            "timm/vit_base_patch32_clip_224.laion400m_e32");
  for (const auto* name : {"vit_small_patch16_224.", "vit_small_patch16_224.augreg", "resnet50",
                           "vit_giant_patch14_224", ".dino", ""})
    EXPECT_EQ(timm_repository(name), "") << name;
}

TEST(TimmWeightsTest, PretrainedNeedsAPresetThatHasWeights) {
  const auto issues_of = [](VitConfig config) {
    config.pretrained = true;
    ConfigIssues issues;
    config.validate(issues);
    return issues.all();
  };
  VitConfig vit;
  ASSERT_TRUE(vit.apply_preset("vit_small_patch16_224"));
  EXPECT_TRUE(issues_of(vit).empty());
  ASSERT_TRUE(vit.apply_preset("vit_giant_patch14_224"));
  ASSERT_EQ(issues_of(vit).size(), 1u);
  EXPECT_THAT(issues_of(vit)[0].message, testing::HasSubstr("--pretrained"));
  EXPECT_EQ(issues_of(VitConfig()).size(), 1u);
}

}  // namespace
}  // namespace fovea::models
