#include "fovea/train/evaluate/int8_range_meter.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "tests/support/close.h"

namespace fovea::train {
namespace {

kernels::Int8Range range_of(const at::Tensor& values, Int8RangeRule rule) {
  Int8RangeMeter meter;
  meter.add(values);
  return meter.range(rule);
}

// What rounding to 256 codes of the range costs, one value at a time.
double squared_error(const at::Tensor& values, double least, double largest) {
  const double step = (largest - least) / 255;
  double sum = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double x = values.const_data_ptr<float>()[i];
    const double held = std::min(std::max(x, least), largest);
    const double code = std::round((held - least) / step);
    sum += std::pow(x - (least + code * step), 2);
  }
  return sum;
}

at::Tensor many() { return support::random({5000}, at::kFloat, 1); }
at::Tensor few() { return at::tensor({12.0f, -7.0f}); }

TEST(Int8RangeMeterTest, MinMaxIsThatAndZero) {
  const auto range = range_of(at::tensor({-1.2345f, 0.5f, 7.8901f}), Int8RangeRule::kMinMax);
  EXPECT_EQ(range.least, -1.2345f);
  EXPECT_EQ(range.largest, 7.8901f);
  const auto above = range_of(at::tensor({2.0f, 3.0f}), Int8RangeRule::kMinMax);
  EXPECT_EQ(above.least, 0);
  EXPECT_EQ(above.largest, 3);
}

// Of many values, and a few that stand out, as there are among features.
TEST(Int8RangeMeterTest, LeastSquaresIsNearTheBestOfAllRanges) {
  constexpr int kTimes = 100, kTried = 12;
  Int8RangeMeter meter;
  for (int i = 0; i < kTimes; ++i) meter.add(many());
  meter.add(few());
  const auto error = [](double least, double largest) {
    return kTimes * squared_error(many(), least, largest) + squared_error(few(), least, largest);
  };
  const auto all = meter.range(Int8RangeRule::kMinMax);
  EXPECT_EQ(all.largest, 12);
  double best = INFINITY;
  for (int low = 1; low <= kTried; ++low) {
    for (int high = 1; high <= kTried; ++high) {
      best = std::min(best, error(all.least * low / kTried, all.largest * high / kTried));
    }
  }
  const auto range = meter.range(Int8RangeRule::kLeastSquares);
  const double found = error(range.least, range.largest);
  EXPECT_LT(found, 1.03 * best);
  EXPECT_LT(found, 0.9 * error(all.least, all.largest)) << "no better than min_max";
}

TEST(Int8RangeMeterTest, NothingIsCutWhereNothingStandsOut) {
  const auto even = support::random({5000}, at::kFloat, 3).clamp(-1, 1);
  const auto range = range_of(even, Int8RangeRule::kLeastSquares);
  EXPECT_NEAR(range.least, -1, 0.02);
  EXPECT_NEAR(range.largest, 1, 0.02);
}

TEST(Int8RangeMeterTest, TheOrderOfValuesChangesNoBit) {
  const auto values = at::cat({many(), few()});
  Int8RangeMeter backwards;
  backwards.add(values.flip(0).slice(0, 0, 100));
  backwards.add(values.flip(0).slice(0, 100));
  for (const auto rule : {Int8RangeRule::kMinMax, Int8RangeRule::kLeastSquares}) {
    EXPECT_TRUE(backwards.range(rule) == range_of(values, rule));
    const auto as_columns = many().view({100, 50});
    EXPECT_TRUE(range_of(as_columns.t(), rule) == range_of(as_columns, rule)) << "not dense";
  }
}

TEST(Int8RangeMeterTest, ZerosHaveNoWidthAndWhatIsNotFiniteIsSeen) {
  for (const auto rule : {Int8RangeRule::kMinMax, Int8RangeRule::kLeastSquares}) {
    EXPECT_TRUE(range_of(at::zeros({3}), rule) == kernels::Int8Range());
  }
  EXPECT_FALSE(Int8RangeMeter().has_values());
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (const float value : {NAN, -NAN, INFINITY, -INFINITY, kLargest, -kLargest}) {
    Int8RangeMeter meter;
    meter.add(at::full({1}, value));
    EXPECT_TRUE(meter.has_values());
    EXPECT_EQ(meter.are_finite(), std::isfinite(value)) << value;
  }
}

TEST(Int8RangeMeterTest, RulesHaveNames) {
  for (const auto rule : {Int8RangeRule::kMinMax, Int8RangeRule::kLeastSquares}) {
    EXPECT_EQ(int8_range_rule(int8_range_rule_name(rule)), rule);
  }
  EXPECT_THROW(int8_range_rule("entropy"), ConfigError);
}

}  // namespace
}  // namespace fovea::train
