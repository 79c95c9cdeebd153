#include "fovea/data/transforms/volume/volume_moves.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/rand_rotate90.h"
#include "fovea/data/transforms/volume/spatial_pad.h"
#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::golden_sample;
using testing::integers_in;
using testing::kDrawTolerance;
using testing::volume_golden_names;
using testing::VolumeBench;

TEST(VolumeMovesTest, PadsAsMonai) {
  const auto names = volume_golden_names("pad");
  EXPECT_EQ(names.size(), 5u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    bench.apply(SpatialPadConfig{
        .spatial_size = {13, 9, 10}, .method = name[1], .mode = name[2], .value = 7.5});
    expect_equals(bench, "pad." + name[1] + "." + name[2]);
  }
  VolumeBench bench(golden_sample("one"));
  bench.apply(SpatialPadConfig{.spatial_size = {13, 9, 10}});
  EXPECT_EQ(bench.classes(), testing::golden_classes("pad_mask.symmetric.constant"));
}

TEST(VolumeMovesTest, ReflectsAndWrapsMoreThanOnce) {
  Sample sample;
  sample.become<Volume>() = {1, {1, 1, 3}, {1, 1, 1}, {0, 1, 2}};
  VolumeBench reflected(sample);
  pad(reflected.item, {.before = {0, 0, 5}, .after = {1, 0, 4}, .mode = VolumePadMode::kReflect},
      reflected.scratch);
  const std::vector<float> row = {1, 0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2};
  std::vector<float> twice = row;
  twice.insert(twice.end(), row.begin(), row.end());  // an axis of one voxel repeats it
  EXPECT_EQ(reflected.values(), twice);
  VolumeBench wrapped(sample);
  pad(wrapped.item, {.before = {0, 0, 4}, .after = {0, 0, 4}, .mode = VolumePadMode::kWrap},
      wrapped.scratch);
  EXPECT_EQ(wrapped.values(), (std::vector<float>{2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}));
}

TEST(VolumeMovesTest, FlipsAsMonai) {
  const auto names = volume_golden_names("flip");
  EXPECT_EQ(names.size(), 4u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    bench.apply(RandFlipConfig{.prob = 1, .spatial_axis = integers_in(name[1])});
    expect_equals(bench, "flip." + name[1]);
  }
}

TEST(VolumeMovesTest, RotatesAsMonai) {
  const auto names = volume_golden_names("rotate90");
  EXPECT_EQ(names.size(), 5u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    const auto axes = integers_in(name[2]);
    rotate90(bench.item, std::stoll(name[1]), static_cast<int>(axes[0]), static_cast<int>(axes[1]));
    expect_equals(bench, "rotate90." + name[1] + "." + name[2]);
  }
}

// One draw for all axes, or one for each.
TEST(VolumeMovesTest, FlipsAsOftenAsAsked) {
  Sample sample;
  sample.become<Volume>() = testing::place_volume({2, 2, 2});
  constexpr int kDraws = 40000;
  std::map<std::vector<float>, int> together, apart;
  VolumeBench bench(sample);
  const VolumeItem start = bench.item;
  for (uint64_t i = 0; i < kDraws; ++i) {
    // The first voxel after the flips tells its old place.
    const auto place = [&](const RandFlipConfig& config) {
      bench.item = start;
      const auto values = bench.apply(config, i).values();
      return std::vector<float>{values[0], values[8], values[16]};
    };
    ++together[place({.prob = 0.3})];
    ++apart[place({.prob = 0.5, .per_axis = true})];
  }
  ASSERT_EQ(together.size(), 2u);
  const int flipped = together[{1, 1, 1}];
  EXPECT_NEAR(flipped, 0.3 * kDraws, kDrawTolerance * kDraws);
  ASSERT_EQ(apart.size(), 8u);
  for (const auto& [place, count] : apart) {
    EXPECT_NEAR(count, kDraws / 8, kDrawTolerance * kDraws / 2);
  }
}

TEST(VolumeMovesTest, QuarterTurnsComeUpEquallyOften) {
  Sample sample;
  sample.become<Volume>() = testing::place_volume({2, 2, 1});
  constexpr int kDraws = 40000;
  std::map<std::vector<float>, int> turns;
  VolumeBench bench(sample);
  const VolumeItem start = bench.item;
  for (uint64_t i = 0; i < kDraws; ++i) {
    bench.item = start;
    const auto values = bench.apply(RandRotate90Config{.prob = 0.75}, i).values();
    ++turns[{values[0], values[4]}];
  }
  ASSERT_EQ(turns.size(), 4u);
  for (const auto& [place, count] : turns) {
    EXPECT_NEAR(count, kDraws / 4, kDrawTolerance * kDraws / 2);
  }
}

// Volumes, masks and spacing move together: each voxel holds its old place, and so does its class.
TEST(VolumeMovesTest, EverythingMovesTogether) {
  Sample sample;
  sample.become<Volume>() = testing::place_volume({6, 7, 8});
  sample.volume().spacing = {1, 2, 3};
  sample.mask.size = {6, 7, 8};
  for (int32_t i = 0; i < 6 * 7 * 8; ++i) sample.mask.classes.push_back(i);
  const auto check = [&](VolumeBench& bench) {
    const auto& values = bench.item.values;
    const auto& classes = bench.item.classes;
    ASSERT_EQ(values.size, classes.size);
    for (int64_t z = 0; z < values.size[0]; ++z) {
      for (int64_t y = 0; y < values.size[1]; ++y) {
        for (int64_t x = 0; x < values.size[2]; ++x) {
          const auto place = [&](int64_t axis) {
            return static_cast<int32_t>(values.row(axis, z, y)[x * values.steps[2]]);
          };
          ASSERT_EQ(classes.row(0, z, y)[x * classes.steps[2]],
                    (place(0) * 7 + place(1)) * 8 + place(2));
        }
      }
    }
  };
  VolumeBench bench(sample);
  crop(bench.item, {1, 0, 2}, {5, 7, 5});
  check(bench);
  flip(bench.item, 1);
  check(bench);
  rotate90(bench.item, 3, 0, 2);
  check(bench);
  EXPECT_EQ(bench.item.spacing, (std::array<double, 3>{3, 2, 1}));
  pad(bench.item, {.before = {1, 2, 3}, .after = {3, 0, 1}}, bench.scratch);
  check(bench);
  rotate90(bench.item, 1, 1, 0);
  check(bench);
  EXPECT_EQ(bench.shape(), (std::vector<int64_t>{3, 9, 9, 9}));
}

}  // namespace
}  // namespace fovea::data
