#include "fovea/data/transforms/volume/volume_affine.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "fovea/data/transforms/volume/rand_affine.h"
#include "fovea/data/transforms/volume/volume_moves.h"
#include "fovea/data/transforms/volume/volume_padding.h"
#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::golden_sample;
using testing::integers_in;
using testing::kDrawTolerance;
using testing::kVolumeTolerance;
using testing::volume_golden;
using testing::volume_golden_names;
using testing::VolumeBench;

AffineParams golden_params(const std::string& number) {
  const auto values = volume_golden("affine." + number + ".params").values<double>();
  AffineParams params;
  std::copy_n(values.begin(), 3, params.rotate.begin());
  std::copy_n(values.begin() + 3, 6, params.shear.begin());
  std::copy_n(values.begin() + 9, 3, params.translate.begin());
  std::copy_n(values.begin() + 12, 3, params.scale.begin());
  return params;
}

Extent extent_in(const std::string& text) { return size_or(integers_in(text), {}); }

TEST(VolumeAffineTest, ResamplesAsMonai) {
  int64_t count = 0;
  for (const auto& name : volume_golden_names("affine")) {
    if (name[2] == "params") continue;
    ++count;
    VolumeBench bench(golden_sample(name[1] == "1" ? "two" : "one"));
    resample_affine(bench.item, affine_map(golden_params(name[1])), extent_in(name[3]),
                    SampleMode::kLinear, padding_mode_from_name(name[2]), bench.scratch);
    const std::string rest = name[1] + "." + name[2] + "." + name[3];
    expect_close(bench, "affine." + rest);
    EXPECT_EQ(bench.classes(), testing::golden_classes("affine_mask." + rest)) << rest;
  }
  EXPECT_EQ(count, 9);
}

TEST(VolumeAffineTest, NearestAsMonai) {
  VolumeBench bench(golden_sample("one"));
  resample_affine(bench.item, affine_map(golden_params("1")), {9, 14, 10}, SampleMode::kNearest,
                  PaddingMode::kZeros, bench.scratch);
  expect_equals(bench, "affine_nearest.1.zeros.9x14x10");
}

// A depth of 1 is MONAI's 2-D transform: its angle is the one about D.
TEST(VolumeAffineTest, DepthOneIsTwoDimensional) {
  for (const auto& name : volume_golden_names("affine_flat")) {
    VolumeBench bench(golden_sample("flat"));
    const AffineParams params = {.rotate = {0.4, 0, 0},
                                 .shear = {0, 0, 0, 0.1, 0, -0.2},
                                 .translate = {0, 1.5, -3.2},
                                 .scale = {1, 0.9, 1.2}};
    resample_affine(bench.item, affine_map(params), {1, 15, 12}, SampleMode::kLinear,
                    padding_mode_from_name(name[1]), bench.scratch);
    expect_close(bench, "affine_flat." + name[1]);
  }
}

// Plain trilinear interpolation in double, one voxel at a time.
double trilinear(const Volume& volume, int64_t channel, const Point& at) {
  double sum = 0;
  const std::array<int64_t, 3> size = extent_of(volume.size);
  for (int corner = 0; corner < 8; ++corner) {
    double weight = 1;
    int64_t index = channel;
    for (size_t axis = 0; axis < 3; ++axis) {
      const auto low = static_cast<int64_t>(std::floor(at[axis]));
      const int64_t place = low + ((corner >> axis) & 1);
      const double share = at[axis] - static_cast<double>(low);
      weight *= place == low ? 1 - share : share;
      if (place < 0 || place >= size[axis]) weight = 0;
      index = index * size[axis] + place;
    }
    if (weight != 0) sum += weight * volume.values[static_cast<size_t>(index)];
  }
  return sum;
}

// Rows of many blocks, inner and outer voxels, against the plain loop.
TEST(VolumeAffineTest, LongRowsAgreeWithThePlainLoop) {
  Sample sample;
  sample.become<Volume>() = {2, {7, 40, 150}, {1, 1, 1}, {}};
  RandomStream values(philox_key(1, "values"), 0);
  for (int64_t i = 0; i < 2 * 7 * 40 * 150; ++i) sample.volume().values.push_back(values.uniform());
  VolumeBench bench(sample);
  const AffineParams params = {.rotate = {0.2, 0.02, -0.03}, .scale = {1.1, 0.9, 1.05}};
  const AffineMap map = affine_map(params);
  resample_affine(bench.item, map, {7, 40, 150}, SampleMode::kLinear, PaddingMode::kZeros,
                  bench.scratch);
  const auto result = bench.values();
  for (int64_t i = 0; i < 7 * 40 * 150; ++i) {
    const Point out = {static_cast<double>(i / 6000) - 3, static_cast<double>(i / 150 % 40) - 19.5,
                       static_cast<double>(i % 150) - 74.5};
    Point at = map(out);
    at = {at[0] + 3, at[1] + 19.5, at[2] + 74.5};
    for (int64_t c = 0; c < 2; ++c) {
      ASSERT_NEAR(result[static_cast<size_t>(c * 42000 + i)], trilinear(sample.volume(), c, at),
                  kVolumeTolerance)
          << i;
    }
  }
}

// Windows with any steps give what their copies give.
TEST(VolumeAffineTest, ReadsThroughTurnedViews) {
  const AffineMap map = affine_map({.rotate = {0.3, 0.1, -0.2}});
  const Extent size = {9, 8, 10};
  VolumeBench turned(golden_sample("two"));
  flip(turned.item, 2);
  rotate90(turned.item, 1, 0, 2);
  VolumeBench copied(golden_sample("two"));
  flip(copied.item, 2);
  rotate90(copied.item, 1, 0, 2);
  own_values(copied.item, copied.scratch);
  for (VolumeBench* bench : {&turned, &copied}) {
    resample_affine(bench->item, map, size, SampleMode::kLinear, PaddingMode::kReflection,
                    bench->scratch);
  }
  EXPECT_EQ(turned.values(), copied.values());
}

TEST(VolumeAffineTest, DrawsAreUniformInTheirRanges) {
  RandAffineConfig config{.prob = 0.25,
                          .rotate_range = {0.5, 0, 0.1},
                          .translate_range = {1, 3, -2, 2, 0, 0},
                          .scale_range = {0.2, 0.2, 0.2}};
  constexpr int kDraws = 40000;
  int drawn = 0;
  double rotate = 0, rotate_squares = 0, translate = 0, scale = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    RandomStream random(philox_key(7, "affine"), i);
    const auto params = draw_affine(config, random);
    if (!params) continue;
    ++drawn;
    EXPECT_LE(std::abs(params->rotate[0]), 0.5);
    EXPECT_EQ(params->rotate[1], 0.0);
    EXPECT_EQ(params->shear, (std::array<double, 6>{}));
    rotate += params->rotate[0];
    rotate_squares += params->rotate[0] * params->rotate[0];
    translate += params->translate[0];
    scale += params->scale[2];
  }
  EXPECT_NEAR(drawn, kDraws / 4, kDrawTolerance * kDraws);
  EXPECT_NEAR(rotate / drawn, 0.0, kDrawTolerance);
  EXPECT_NEAR(rotate_squares / drawn, 0.25 / 3, kDrawTolerance);
  EXPECT_NEAR(translate / drawn, 2.0, 2 * kDrawTolerance);
  EXPECT_NEAR(scale / drawn, 1.0, kDrawTolerance);
}

// Without a draw only another spatial_size resamples.
TEST(VolumeAffineTest, WithoutADrawTheVolumeStays) {
  VolumeBench bench(golden_sample("one"));
  RandAffineConfig config{.prob = 0, .rotate_range = {1, 1, 1}};
  bench.apply(config);
  EXPECT_EQ(bench.item.values.first, bench.sample.volume().values.data());
  config.spatial_size = {8, 11, 7};
  bench.apply(config);
  EXPECT_EQ(bench.shape(), (std::vector<int64_t>{1, 8, 11, 7}));
  const auto& before = bench.sample.volume().values;
  EXPECT_EQ(bench.values(), std::vector<float>(before.begin() + 77, before.end() - 77));
}

}  // namespace
}  // namespace fovea::data
