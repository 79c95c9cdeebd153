
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "fovea/data/transforms/volume/center_spatial_crop.h"
#include "fovea/data/transforms/volume/crop_foreground.h"
#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/rand_crop_by_pos_neg_label.h"
#include "fovea/data/transforms/volume/rand_spatial_crop.h"
#include "fovea/data/transforms/volume/volume_moves.h"
#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::golden_sample;
using ::testing::HasSubstr;
using testing::integers_in;
using testing::kDrawTolerance;
using testing::message_of;
using testing::volume_golden;
using testing::volume_golden_names;
using testing::VolumeBench;

TEST(VolumeCropsTest, CentreIsMonais) {
  const auto names = volume_golden_names("center_crop");
  EXPECT_EQ(names.size(), 2u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    bench.apply(CenterSpatialCropConfig{.roi_size = integers_in(name[1])});
    expect_equals(bench, "center_crop." + name[1]);
  }
}

// Given the same kind of voxel and the same number of it, the box lies where MONAI puts it.
TEST(VolumeCropsTest, PosNegBoxesAreMonais) {
  const auto names = volume_golden_names("pos_neg");
  EXPECT_EQ(names.size(), 6u);
  for (const auto& name : names) {
    SCOPED_TRACE(name[1] + " " + name[2]);
    RandCropByPosNegLabelConfig config{.spatial_size = integers_in(name[1])};
    if (name[2] == "1") config.image_threshold = 100.0;
    VolumeBench bench(golden_sample("one"));
    const auto rows = volume_golden("pos_neg." + name[1] + "." + name[2]).values<int64_t>();
    const LabelCounts counts = count_labels(bench.item, config, bench.scratch);
    EXPECT_EQ(counts.foreground, rows[0]);
    EXPECT_EQ(counts.background, rows[1]);
    for (size_t i = 5; i < rows.size(); i += 5) {
      const Extent at = find_label(bench.item, config, rows[i] == 1, rows[i + 1], bench.scratch);
      const VoxelBox box = box_around(at, size_or(config.spatial_size, bench.item.values.size),
                                      bench.item.values.size);
      EXPECT_EQ(box.start, (Extent{rows[i + 2], rows[i + 3], rows[i + 4]}));
    }
  }
}

TEST(VolumeCropsTest, ForegroundBoxIsMonais) {
  const auto names = volume_golden_names("crop_foreground");
  EXPECT_EQ(names.size(), 4u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    bench.apply(CropForegroundConfig{.threshold = 250,
                                     .margin = {std::stoll(name[1])},
                                     .allow_smaller = name[3] == "1",
                                     .k_divisible = {std::stoll(name[2])}});
    expect_equals(bench, "crop_foreground." + name[1] + "." + name[2] + "." + name[3]);
    EXPECT_EQ(bench.item.classes.size, bench.item.values.size);
  }
}

TEST(VolumeCropsTest, ForegroundOfChosenChannels) {
  Sample sample;
  sample.become<Volume>() = {2, {1, 1, 6}, {1, 1, 1}, {9, 0, 0, 0, 0, 9, 0, 0, 1, 1, 0, 0}};
  VolumeBench bench(sample);
  bench.apply(CropForegroundConfig{.channel_indices = {1}});
  EXPECT_EQ(bench.values(), (std::vector<float>{0, 0, 1, 1}));
  // The same through a view that has no rows in order.
  VolumeBench turned(sample);
  rotate90(turned.item, 1, 1, 2);
  turned.apply(CropForegroundConfig{.channel_indices = {1}});
  EXPECT_EQ(turned.shape(), (std::vector<int64_t>{2, 1, 2, 1}));
  EXPECT_THAT(
      message_of<DataError>([&] { bench.apply(CropForegroundConfig{.channel_indices = {2}}); }),
      HasSubstr("channel 2 of a volume with 2"));
  EXPECT_THAT(message_of<DataError>([&] { bench.apply(CropForegroundConfig{.threshold = 10}); }),
              HasSubstr("no voxel above 10"));
}

// Every start comes up equally often.
TEST(VolumeCropsTest, RandomBoxesAreUniform) {
  const RandSpatialCropConfig config{.roi_size = {4, -1, 9}};
  std::vector<int> starts(4);
  constexpr int kDraws = 40000;
  for (int i = 0; i < kDraws; ++i) {
    RandomStream random(philox_key(3, "crops"), static_cast<uint64_t>(i));
    const VoxelBox box = draw_spatial_crop(config, {7, 5, 6}, random);
    EXPECT_EQ(box.size, (Extent{4, 5, 6}));
    EXPECT_EQ(box.start[1] + box.start[2], 0);
    ++starts.at(static_cast<size_t>(box.start[0]));
  }
  for (const int count : starts) EXPECT_NEAR(count, kDraws / 4, kDrawTolerance * kDraws / 4);
}

TEST(VolumeCropsTest, RandomSizesSpanTheRange) {
  const RandSpatialCropConfig config{
      .roi_size = {2}, .max_roi_size = {4, 3, -1}, .random_size = true};
  std::set<int64_t> depths, heights, widths;
  for (uint64_t i = 0; i < 500; ++i) {
    RandomStream random(philox_key(4, "crops"), i);
    const VoxelBox box = draw_spatial_crop(config, {7, 7, 5}, random);
    depths.insert(box.size[0]);
    heights.insert(box.size[1]);
    widths.insert(box.size[2]);
    for (size_t axis = 0; axis < 3; ++axis) {
      EXPECT_LE(box.start[axis] + box.size[axis], (Extent{7, 7, 5}[axis]));
    }
  }
  EXPECT_EQ(depths, (std::set<int64_t>{2, 3, 4}));
  EXPECT_EQ(heights, (std::set<int64_t>{2, 3}));
  EXPECT_EQ(widths, (std::set<int64_t>{2, 3, 4, 5}));
  RandomStream random(philox_key(4, "crops"), 0);
  EXPECT_THROW(draw_spatial_crop({.roi_size = {9}, .random_size = true}, {7, 7, 5}, random),
               DataError);
}

// With pos 3 and neg 1, three of four boxes hold the voxel of the only foreground.
TEST(VolumeCropsTest, ForegroundComesUpAsOftenAsAsked) {
  Sample sample;
  sample.become<Volume>() = {1, {1, 40, 40}, {1, 1, 1}, std::vector<float>(1600)};
  sample.mask = {{1, 40, 40}, std::vector<int32_t>(1600)};
  sample.mask.classes[0] = 5;
  sample.mask.classes[1599] = -1;
  VolumeBench bench(sample);
  const RandCropByPosNegLabelConfig config{.spatial_size = {1}, .pos = 3, .neg = 1};
  constexpr int kDraws = 4000;
  int foreground = 0;
  std::set<int64_t> background;
  for (uint64_t i = 0; i < kDraws; ++i) {
    RandomStream random(philox_key(5, "crops"), i);
    const VoxelBox box = draw_pos_neg_crop(config, bench.item, random, bench.scratch);
    const int64_t at = box.start[1] * 40 + box.start[2];
    EXPECT_NE(at, 1599) << "not labelled";
    foreground += at == 0 ? 1 : 0;
    if (at != 0) background.insert(at);
  }
  EXPECT_NEAR(foreground, 0.75 * kDraws, kDrawTolerance * kDraws);
  EXPECT_GT(background.size(), 600u);  // of 1598, in about 1000 draws
}

TEST(VolumeCropsTest, TakesWhatThereIsToDrawAround) {
  const RandCropByPosNegLabelConfig config{.spatial_size = {1, 1, 2}};
  const auto start_of = [&](std::vector<int32_t> classes) {
    Sample sample;
    sample.become<Volume>() = {1, {1, 1, 4}, {1, 1, 1}, {0, 0, 0, 0}};
    sample.mask = {{1, 1, 4}, std::move(classes)};
    VolumeBench bench(sample);
    RandomStream random(philox_key(6, "crops"), 0);
    return draw_pos_neg_crop(config, bench.item, random, bench.scratch).start[2];
  };
  EXPECT_EQ(start_of({-1, -1, -1, 0}), 2);  // no foreground: around background
  EXPECT_EQ(start_of({1, -1, -1, -1}), 0);
  EXPECT_THAT(message_of<DataError>([&] {
                start_of({-1, -1, -1, -1});
              }),
              HasSubstr("no voxel of class 0 or above"));
}

TEST(VolumeCropsTest, PosNegSaysWhatIsMissing) {
  Sample without_mask;
  without_mask.become<Volume>() = testing::golden_volume("one");
  VolumeBench no_mask(without_mask);
  EXPECT_THAT(message_of<DataError>(
                  [&] { no_mask.apply(RandCropByPosNegLabelConfig{.spatial_size = {2}}); }),
              HasSubstr("needs a mask"));
  VolumeBench small(golden_sample("one"));
  RandCropByPosNegLabelConfig config{.spatial_size = {8}};
  EXPECT_THAT(message_of<DataError>([&] { small.apply(config); }),
              HasSubstr("8 voxels along axis 2, but the volume has 7"));
  config.allow_smaller = true;
  EXPECT_EQ(small.apply(config).shape(), (std::vector<int64_t>{1, 8, 8, 7}));
}

}  // namespace
}  // namespace fovea::data
