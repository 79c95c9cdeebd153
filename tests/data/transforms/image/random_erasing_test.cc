#include "fovea/data/transforms/image/random_erasing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "tests/data/augment_support.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::test_stream;

std::vector<float> erased(const RandomErasingConfig& config, ImageSize size, int64_t channels,
                          uint64_t sample) {
  std::vector<float> image(static_cast<size_t>(channels * size.height * size.width), 1.0f);
  RandomStream random = test_stream(sample);
  erase_randomly(config, size, random, image);
  return image;
}

// The share of erased pixels against timm's, over many images: mean within five standard errors,
// and the spread.
TEST(RandomErasingTest, ErasesAsMuchAsTimm) {
  constexpr int kImages = 6000;
  for (const int64_t count : {1, 3}) {
    const auto expected =
        testing::augment_golden("erased_share." + std::to_string(count)).values<double>();
    double sum = 0, squares = 0;
    for (int i = 0; i < kImages; ++i) {
      const auto image = erased({.p = 1, .max_count = count}, {32, 40}, 1, i);
      const double share =
          static_cast<double>(std::count(image.begin(), image.end(), 0.0f)) / (32 * 40);
      sum += share;
      squares += share * share;
    }
    const double mean = sum / kImages;
    EXPECT_NEAR(mean, expected[0], 5 * expected[1] * std::sqrt(2.0 / kImages)) << count;
    EXPECT_NEAR(std::sqrt(squares / kImages - mean * mean), expected[1], 0.06 * expected[1]);
  }
}

TEST(RandomErasingTest, ModesFillAsTheySay) {
  bool has_box = false;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    const auto color = erased({.p = 1, .mode = "rand"}, {20, 20}, 3, sample);
    std::set<float> values(color.begin(), color.end());
    EXPECT_LE(values.size(), 4u);  // one a channel, and what was there
    const auto pixels = erased({.p = 1, .mode = "pixel"}, {20, 20}, 3, sample);
    const auto kept = std::count(pixels.begin(), pixels.end(), 1.0f);
    values = {pixels.begin(), pixels.end()};
    EXPECT_EQ(static_cast<int64_t>(values.size()), 1200 - kept + 1);
    has_box |= kept < 1200;
    // The same box in every channel.
    for (int i = 0; i < 400; ++i) EXPECT_EQ(pixels[i] == 1.0f, pixels[400 + i] == 1.0f);
  }
  EXPECT_TRUE(has_box);
}

TEST(RandomErasingTest, HappensWithItsProbability) {
  int changed = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto image = erased({.p = 0.3}, {16, 16}, 1, i);
    changed += std::count(image.begin(), image.end(), 0.0f) > 0;
  }
  EXPECT_NEAR(changed, 1200, 150);
}

TEST(RandomErasingTest, BoxesLieInside) {
  const RandomErasingConfig config = {.p = 1};
  for (int i = 0; i < 3000; ++i) {
    RandomStream random = test_stream(i);
    const auto box = draw_erasing_box(config, {9, 30}, 1.0, random);
    if (!box) continue;
    EXPECT_GE(box->top, 0);
    EXPECT_LE(box->top + box->size.height, 9);
    EXPECT_LT(box->size.height, 9);
    EXPECT_LE(box->left + box->size.width, 30);
  }
}

TEST(RandomErasingTest, StandsAfterNormalize) {
  const TransformPipeline pipeline({{NormalizeConfig{}}, {RandomErasingConfig{.p = 1}}}, 1);
  const Image image = {16, 16, 1, std::vector<uint8_t>(256, 255)};
  TransformScratch scratch;
  std::vector<float> out(256);
  pipeline.apply(image, test_stream(), out, scratch);
  const auto zeros = std::count(out.begin(), out.end(), 0.0f);
  EXPECT_GT(zeros, 0);
  EXPECT_EQ(std::count(out.begin(), out.end(), 1.0f), 256 - zeros);
  EXPECT_THAT(message_of<ConfigError>([] {
                TransformPipeline({{RandomErasingConfig{}}, {NormalizeConfig{}}}, 1);
              }),
              HasSubstr("random_erasing is number 1"));
}

}  // namespace
}  // namespace fovea::data
