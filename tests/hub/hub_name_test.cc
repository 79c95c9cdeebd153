#include "fovea/hub/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::hub {
namespace {

TEST(HubNameTest, HasARepositoryAndARevision) {
  const auto plain = parse_hub_name("hf-hub:timm/vit_small_patch16_224.augreg_in21k");
  EXPECT_EQ(plain.repository, "timm/vit_small_patch16_224.augreg_in21k");
  EXPECT_EQ(plain.revision, "main");
  EXPECT_EQ(plain.text(), "hf-hub:timm/vit_small_patch16_224.augreg_in21k");
  const auto other = parse_hub_name("hf_hub:a/b@refs/pr/1");
  EXPECT_EQ(other.repository, "a/b");
  EXPECT_EQ(other.revision, "refs/pr/1");
  EXPECT_EQ(other.text(), "hf-hub:a/b@refs/pr/1");
  EXPECT_EQ(parse_hub_name("hf-hub:gpt2").repository, "gpt2");
}

TEST(HubNameTest, OtherTextsAreNone) {
  EXPECT_FALSE(is_hub_name("weights.safetensors"));
  EXPECT_FALSE(is_hub_name("/tmp/hf-hub:a/b"));
  for (const auto* text : {"hf-hub:",
                           "hf-hub:/",
                           "hf-hub:a/",
                           "hf-hub:/b",
                           "hf-hub:a/b/c",
                           "hf-hub:a/../b",
                           "hf-hub:../b",
                           "hf-hub:a--b/c",
                           "hf-hub:.a/b",
                           "hf-hub:a/b@",
                           "hf-hub:a/b@../../x",
                           "hf-hub:a/b@/x",
                           "hf-hub:a/b@x/",
                           "hf-hub:a/b@.x",
                           "hf-hub:a/b@x/.y",
                           "hf-hub:a/b c",
                           "hf-hub:a/b@x y",
                           "hf-hub:a/b?c",
                           "hf-hub:https://host/a",
                           "weights",
                           ""}) {
    EXPECT_THROW(parse_hub_name(text), ConfigError) << text;
  }
  EXPECT_THROW(parse_hub_name("hf-hub:" + std::string(97, 'a') + "/b"), ConfigError);
}

}  // namespace
}  // namespace fovea::hub
