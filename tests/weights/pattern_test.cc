#include "fovea/weights/pattern.h"

#include <gtest/gtest.h>

#include "fovea/core/error.h"

namespace fovea::weights {
namespace {

TEST(PatternTest, CapturesNumbersLeavesAndTheRest) {
  const Pattern pattern("<vit.|deit.|>layer.{i}.{p}");
  const auto captures = pattern.match("deit.layer.12.bias");
  ASSERT_TRUE(captures.has_value());
  EXPECT_EQ(captures->at('i'), "12");
  EXPECT_EQ(captures->at('p'), "bias");
  EXPECT_TRUE(pattern.match("layer.0.weight").has_value());
  for (const auto* other : {"layer.a.weight", "layer.0.gamma", "xlayer.0.weight", "layer.0.weights",
                            "layerx0.weight", "vit.deit.layer.0.weight"}) {
    EXPECT_FALSE(pattern.match(other).has_value()) << other;
  }
  EXPECT_EQ(Pattern("decoder_{*}").match("decoder_blocks.0.x")->at('*'), "blocks.0.x");
  EXPECT_FALSE(Pattern("{*}").match(std::string(5000, 'a')).has_value());
}

TEST(PatternTest, WritesTheFirstSpelling) {
  EXPECT_EQ(Pattern("<vit.|>layer.{i}.<a.b|c>.{p}").expand({{'i', "3"}, {'p', "bias"}}),
            "vit.layer.3.a.b.bias");
  EXPECT_EQ(Pattern("<|dinov2.>norm").expand({}), "norm");
  EXPECT_FALSE(Pattern("blocks.{c}.{i}").expand({{'i', "3"}}).has_value());
  EXPECT_THROW(Pattern("blocks.{i"), Error);
}

}  // namespace
}  // namespace fovea::weights
