#include "fovea/data/transforms/volume/volume_intensity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fovea/data/transforms/volume/normalize_intensity.h"
#include "fovea/data/transforms/volume/rand_gaussian_noise.h"
#include "fovea/data/transforms/volume/rand_scale_intensity.h"
#include "fovea/data/transforms/volume/rand_shift_intensity.h"
#include "fovea/data/transforms/volume/scale_intensity.h"
#include "fovea/data/transforms/volume/scale_intensity_range.h"
#include "fovea/data/transforms/volume/volume_moves.h"
#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::golden_sample;
using ::testing::HasSubstr;
using testing::kDrawTolerance;
using testing::message_of;
using testing::VolumeBench;

TEST(VolumeIntensityTest, ShiftsAndMultipliesAsMonai) {
  VolumeBench shifted(golden_sample("two"));
  const float offset = 3.25f;
  shift_intensity(shifted.item, {&offset, 1}, shifted.scratch);
  expect_equals(shifted, "shift.3.25");
  VolumeBench multiplied(golden_sample("two"));
  const auto factor = static_cast<float>(1.0 + 0.13);
  multiply_intensity(multiplied.item, {&factor, 1}, multiplied.scratch);
  expect_equals(multiplied, "multiply.0.13");
}

TEST(VolumeIntensityTest, WindowsAsMonai) {
  for (const bool clip : {false, true}) {
    VolumeBench bench(golden_sample("two"));
    bench.apply(ScaleIntensityRangeConfig{
        .a_min = -20, .a_max = 250, .b_min = -1, .b_max = 2, .clip = clip});
    expect_close(bench, clip ? "range.1" : "range.0");
  }
}

TEST(VolumeIntensityTest, ScalesToARangeAsMonai) {
  for (const bool channel_wise : {false, true}) {
    VolumeBench bench(golden_sample("two"));
    bench.apply(ScaleIntensityConfig{.minv = -1, .maxv = 3, .channel_wise = channel_wise});
    expect_close(bench, channel_wise ? "scale.1" : "scale.0");
  }
  Sample constant;
  constant.become<Volume>() = {1, {2, 3, 4}, {1, 1, 1}, std::vector<float>(24, 5.0f)};
  VolumeBench bench(constant);
  expect_equals(bench.apply(ScaleIntensityConfig{.minv = 2, .maxv = 3}), "scale_constant");
}

TEST(VolumeIntensityTest, NormalizesAsMonai) {
  for (const bool channel_wise : {false, true}) {
    for (const bool nonzero : {false, true}) {
      VolumeBench bench(golden_sample("two"));
      bench.apply(NormalizeIntensityConfig{.nonzero = nonzero, .channel_wise = channel_wise});
      expect_close(bench, fmt::format("normalize.{}.{}", channel_wise ? 1 : 0, nonzero ? 1 : 0));
    }
  }
  Sample constant;
  constant.become<Volume>() = {1, {2, 3, 4}, {1, 1, 1}, std::vector<float>(24, 5.0f)};
  VolumeBench bench(constant);
  expect_equals(bench.apply(NormalizeIntensityConfig{}), "normalize_constant");
}

TEST(VolumeIntensityTest, NormalizesByGivenNumbers) {
  VolumeBench bench(golden_sample("two"));
  NormalizeIntensityConfig config{.subtrahend = {10, 20}, .divisor = {3, 7}, .nonzero = true};
  expect_close(bench.apply(config), "normalize_given");
  config.divisor = {1, 2, 3};
  EXPECT_THAT(message_of<DataError>([&] { bench.apply(config); }),
              HasSubstr("normalize_intensity.divisor has 3 values"));
}

// All zeros, with nonzero: nothing counts and nothing changes.
TEST(VolumeIntensityTest, NothingButZerosStays) {
  Sample zeros;
  zeros.become<Volume>() = {1, {1, 2, 2}, {1, 1, 1}, std::vector<float>(4)};
  VolumeBench bench(zeros);
  bench.apply(NormalizeIntensityConfig{.nonzero = true});
  EXPECT_EQ(bench.values(), std::vector<float>(4));
}

// A turned window and its copy have the same sums, to the last bit.
TEST(VolumeIntensityTest, ViewsGiveWhatTheirCopiesGive) {
  VolumeBench turned(golden_sample("two"));
  flip(turned.item, 2);
  VolumeBench copied(golden_sample("two"));
  flip(copied.item, 2);
  own_values(copied.item, copied.scratch);
  for (VolumeBench* bench : {&turned, &copied}) {
    bench->apply(NormalizeIntensityConfig{}).apply(RandGaussianNoiseConfig{.prob = 1});
  }
  EXPECT_EQ(turned.values(), copied.values());
}

// The sample itself is never written.
TEST(VolumeIntensityTest, LeavesTheSampleAlone) {
  const Sample sample = golden_sample("two");
  VolumeBench bench(sample);
  bench.apply(ScaleIntensityConfig{}).apply(RandShiftIntensityConfig{.prob = 1});
  EXPECT_EQ(bench.sample.volume().values, sample.volume().values);
}

TEST(VolumeIntensityTest, DrawsOnceOrForEachChannel) {
  Sample sample;
  sample.become<Volume>() = {2, {1, 1, 1}, {1, 1, 1}, {1, 1}};
  double shift_sum = 0, factor_squares = 0;
  int shifted = 0;
  constexpr int kDraws = 40000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    VolumeBench bench(sample);
    bench.apply(RandShiftIntensityConfig{.offsets = {2, 4}, .prob = 0.5}, i);
    const auto values = bench.values();
    EXPECT_EQ(values[0], values[1]);
    if (values[0] == 1.0f) continue;
    ++shifted;
    shift_sum += values[0] - 1;
  }
  EXPECT_NEAR(shifted, kDraws / 2, kDrawTolerance * kDraws);
  EXPECT_NEAR(shift_sum / shifted, 3.0, kDrawTolerance);
  int different = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    VolumeBench bench(sample);
    bench.apply(RandScaleIntensityConfig{.factors = {0.5}, .prob = 1, .channel_wise = true}, i);
    const auto values = bench.values();
    different += values[0] != values[1] ? 1 : 0;
    factor_squares += (values[1] - 1) * (values[1] - 1);
  }
  EXPECT_GT(different, kDraws * 99 / 100);
  EXPECT_NEAR(factor_squares / kDraws, 0.25 / 3, kDrawTolerance);
}

// The spread of the noise is uniform up to std, or std itself.
TEST(VolumeIntensityTest, NoiseHasItsSpread) {
  Sample sample;
  sample.become<Volume>() = {1, {1, 1, 1000}, {1, 1, 1}, std::vector<float>(1000)};
  double drawn = 0;
  constexpr int kDraws = 2000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    VolumeBench bench(sample);
    bench.apply(RandGaussianNoiseConfig{.prob = 1, .std = 2}, i);
    double squares = 0;
    for (const float value : bench.values()) squares += value * value;
    drawn += std::sqrt(squares / 1000);
  }
  EXPECT_NEAR(drawn / kDraws, 1.0, kDrawTolerance);
  double squares = 0, sum = 0;
  for (uint64_t i = 0; i < 40; ++i) {
    VolumeBench bench(sample);
    bench.apply(RandGaussianNoiseConfig{.prob = 1, .mean = 5, .std = 2, .sample_std = false}, i);
    for (const float value : bench.values()) {
      sum += value;
      squares += (value - 5) * (value - 5);
    }
  }
  EXPECT_NEAR(sum / 40000, 5.0, 2 * kDrawTolerance);
  EXPECT_NEAR(std::sqrt(squares / 40000), 2.0, 2 * kDrawTolerance);
}

}  // namespace
}  // namespace fovea::data
