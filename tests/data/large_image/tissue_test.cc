#include "fovea/data/large_image/tissue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;

constexpr const char* kTissueGoldens = "data_slides";

TEST(TissueTest, TheThresholdIsScikitImages) {
  const auto& level = golden("level.aperio.2", kTissueGoldens);
  std::vector<uint8_t> values;
  std::vector<int64_t> counts(256, 0);
  for (size_t i = 0; i < level.bytes.size(); i += 3) {
    values.push_back(saturation(level.bytes.data() + i));
    ++counts[values.back()];
  }
  EXPECT_EQ(values, golden("saturation", kTissueGoldens).bytes);
  EXPECT_EQ(otsu_threshold(counts), golden("threshold", kTissueGoldens).values<double>().at(0));
}

TEST(TissueTest, ThresholdsOfFewValues) {
  std::vector<int64_t> counts(256, 0);
  counts[7] = 5;
  EXPECT_EQ(otsu_threshold(counts), 7);
  counts[200] = 3;
  EXPECT_EQ(otsu_threshold(counts), 7);
  counts[190] = 9;
  EXPECT_EQ(otsu_threshold(counts), 7);
}

TEST(TissueTest, SaturationOfBlackAndOfPureColours) {
  const std::vector<uint8_t> rgb = {0, 0, 0, 255, 0, 0, 9, 9, 9, 100, 50, 75};
  EXPECT_EQ(saturation(rgb.data()), 0);
  EXPECT_EQ(saturation(rgb.data() + 3), 255);
  EXPECT_EQ(saturation(rgb.data() + 6), 0);
  EXPECT_EQ(saturation(rgb.data() + 9), 127);
}

}  // namespace
}  // namespace fovea::data
