#include "fovea/data/transforms/standard_normals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::kDeviateTolerance;
using testing::kMomentTolerance;
using testing::kVolumeTolerance;

std::vector<float> normals(size_t count, PhiloxKey key) {
  std::vector<float> values(count);
  add_standard_normals(key, 0, 1, values);
  return values;
}

// The formula of the header in double, word by word.
TEST(StandardNormalsTest, AreBoxMullersOfPhiloxsWords) {
  const PhiloxKey key = philox_key(1, "normals");
  const auto values = normals(1000, key);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t deviate = i % 256 / 64;
    const auto block = static_cast<uint32_t>(i / 256 * 64 + i % 64);
    const PhiloxCounter words = philox4x32({block, 0, 0, 0}, key);
    const size_t pair = deviate / 2 * 2;
    const double uniform = ((words[pair] >> 9) + 0.5) * 0x1p-23;
    const double angle = 2 * std::numbers::pi * (words[pair + 1] >> 8) * 0x1p-24;
    const double radius = std::sqrt(-2 * std::log(uniform));
    const double expected = radius * (deviate % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_NEAR(values[i], expected, kDeviateTolerance) << i;
  }
}

TEST(StandardNormalsTest, HaveTheMomentsAndTailsOfANormal) {
  constexpr size_t kCount = 1 << 20;
  const auto values = normals(kCount, philox_key(2, "normals"));
  double sums[5] = {}, neighbours = 0, halves = 0;
  int64_t beyond_two = 0, beyond_four = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const double value = values[i];
    double power = 1;
    for (double& sum : sums) {
      sum += power;
      power *= value;
    }
    neighbours += value * values[(i + 1) % kCount];
    halves += value * values[(i + 64) % kCount];
    beyond_two += std::abs(value) > 2 ? 1 : 0;
    beyond_four += std::abs(value) > 4 ? 1 : 0;
  }
  const double count = kCount;
  EXPECT_NEAR(sums[1] / count, 0, kMomentTolerance);
  EXPECT_NEAR(sums[2] / count, 1, kMomentTolerance);
  EXPECT_NEAR(sums[3] / count, 0, 2 * kMomentTolerance);
  EXPECT_NEAR(sums[4] / count, 3, 4 * kMomentTolerance);
  EXPECT_NEAR(neighbours / count, 0, kMomentTolerance);
  EXPECT_NEAR(halves / count, 0, kMomentTolerance);
  EXPECT_NEAR(beyond_two / count, std::erfc(std::numbers::sqrt2), 0.1 * kMomentTolerance);
  EXPECT_GT(beyond_four, 30);  // 66 expected
  EXPECT_LT(beyond_four, 120);
}

TEST(StandardNormalsTest, DependOnKeyAndPlaceAlone) {
  const auto key = philox_key(3, "normals");
  const auto few = normals(77, key);
  const auto many = normals(3000, key);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), many.begin()));
  EXPECT_NE(few, normals(77, philox_key(4, "normals")));
  std::vector<float> added(77, 10.0f);
  add_standard_normals(key, 1, 2, added);
  for (size_t i = 0; i < 77; ++i) EXPECT_NEAR(added[i], 11 + 2 * few[i], 20 * kVolumeTolerance);
}

}  // namespace
}  // namespace fovea::data
