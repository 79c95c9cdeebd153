#include "fovea/train/report/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::train {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pointwise;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(TicksTest, AreRoundAndWithinTheRange) {
  EXPECT_THAT(linear_ticks(0, 1, 5), Pointwise(DoubleEq(), {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}));
  EXPECT_THAT(linear_ticks(0, 1170, 6), ElementsAre(0, 200, 400, 600, 800, 1000));
  EXPECT_THAT(linear_ticks(-3, 3, 5), ElementsAre(-2, 0, 2));
  EXPECT_THAT(linear_ticks(5, 5, 5), ElementsAre(5));
}

TEST(TicksTest, HoldForAnyRange) {
  for (const double low : {-1e9, -3.7, 0.0, 1e-8, 0.1234, 99.0}) {
    for (const double range : {1e-7, 0.02, 1.0, 3.3, 47.0, 1e6}) {
      const auto ticks = linear_ticks(low, low + range, 5);
      if (range <= std::fabs(low) * 1e-12) continue;
      ASSERT_GE(ticks.size(), 2u) << low << " + " << range;
      ASSERT_LE(ticks.size(), 12u) << low << " + " << range;
      for (const double tick : ticks) {
        EXPECT_GE(tick, low - range * 1e-6);
        EXPECT_LE(tick, low + range * (1 + 1e-6));
      }
      auto labels = tick_labels(ticks);
      std::sort(labels.begin(), labels.end());
      if (range > std::fabs(low) * 1e-6) {
        EXPECT_EQ(std::adjacent_find(labels.begin(), labels.end()), labels.end())
            << low << " + " << range;
      }
    }
  }
}

TEST(TicksTest, AreDecadesOnALogarithmicAxis) {
  EXPECT_THAT(log_ticks(1, 10000, 5), Pointwise(DoubleEq(), {1.0, 10.0, 100.0, 1e3, 1e4}));
  EXPECT_THAT(log_ticks(0.5, 40, 6), Pointwise(DoubleEq(), {0.5, 1.0, 2.0, 5.0, 10.0, 20.0}));
  EXPECT_LE(log_ticks(1e-12, 1e12, 5).size(), 8u);
}

TEST(TicksTest, LabelsCarryJustTheDigitsNeeded) {
  EXPECT_THAT(tick_labels({0, 0.5, 1}), ElementsAre("0", "0.5", "1"));
  EXPECT_THAT(tick_labels({0, 2e-4, 1e-3}), ElementsAre("0", "2e-4", "1e-3"));
  EXPECT_THAT(tick_labels({0, 20000, 50000}), ElementsAre("0", "20k", "50k"));
  EXPECT_THAT(tick_labels({0, 1.5e6}), ElementsAre("0", "1.5M"));
  EXPECT_THAT(tick_labels({97.5, 98}), ElementsAre("97.5", "98"));
  EXPECT_THAT(tick_labels({1.00001, 1.00002}), ElementsAre("1.00001", "1.00002"));
}

TEST(DecimateTest, KeepsEndsAndSpikes) {
  Curve curve;
  for (int i = 0; i < 100000; ++i) curve.add(i, std::sin(i * 1e-3));
  curve.y[31337] = 50;
  curve.y[71111] = -50;
  const auto out = decimate(curve, 400);
  EXPECT_LE(out.size(), 400u);
  EXPECT_GE(out.size(), 200u);
  EXPECT_EQ(out.x.front(), 0);
  EXPECT_EQ(out.x.back(), 99999);
  EXPECT_TRUE(std::is_sorted(out.x.begin(), out.x.end()));
  const auto high = std::max_element(out.y.begin(), out.y.end()) - out.y.begin();
  EXPECT_EQ(out.x[static_cast<size_t>(high)], 31337);
  EXPECT_EQ(*std::min_element(out.y.begin(), out.y.end()), -50);
}

TEST(DecimateTest, LeavesShortCurvesAlone) {
  Curve curve{{1, 2, 3}, {4, 5, 6}};
  EXPECT_EQ(decimate(curve, 4).y, curve.y);
}

TEST(SmoothTest, KeepsConstantsAndDoesNotShiftAStep) {
  Curve flat, step;
  for (int i = 0; i < 101; ++i) {
    flat.add(i, 3);
    step.add(i, i < 50 ? 0 : i == 50 ? 0.5 : 1);
  }
  for (const double value : smooth(flat, 9).y) EXPECT_DOUBLE_EQ(value, 3);
  const auto smoothed = smooth(step, 9);
  EXPECT_DOUBLE_EQ(smoothed.y[50], 0.5);
  EXPECT_DOUBLE_EQ(smoothed.y[40], 0);
  EXPECT_DOUBLE_EQ(smoothed.y[60], 1);
  EXPECT_DOUBLE_EQ(smoothed.y[52] + smoothed.y[48], 1);
}

TEST(SmoothTest, IsTheMeanOfTheWindow) {
  const Curve curve{{1, 2, 3, 4, 5}, {1, 10, 100, 1000, 10000}};
  EXPECT_THAT(smooth(curve, 3).y, ElementsAre(1, 37, 370, 3700, 5500));
  EXPECT_EQ(smooth(curve, 1).y, curve.y);
}

TEST(CurveTest, SetsApartWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Curve curve{{1, 2, 3, 4}, {1, kNan, infinity, 4}};
  EXPECT_THAT(finite_points(curve).x, ElementsAre(1, 4));
  EXPECT_THAT(broken_points(curve), ElementsAre(2, 3));
  EXPECT_THAT(smooth(curve, 3).x, ElementsAre(1, 4));
}

TEST(QuantileTest, IsTheNearestRank) {
  EXPECT_EQ(quantile({3, 1, 2, kNan}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_TRUE(std::isnan(quantile({kNan}, 0.5)));
}

}  // namespace
}  // namespace fovea::train
