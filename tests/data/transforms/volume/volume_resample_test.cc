#include "fovea/data/transforms/volume/volume_resample.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "fovea/data/transforms/volume/spacing.h"
#include "fovea/data/transforms/volume/spatial_resize.h"
#include "fovea/data/transforms/volume/volume_moves.h"
#include "tests/data/volume_support.h"

namespace fovea::data {
namespace {

using testing::golden_sample;
using testing::integers_in;
using testing::kKernelTail;
using testing::kVolumeTolerance;
using testing::numbers_in;
using testing::volume_golden_names;
using testing::VolumeBench;

TEST(VolumeResampleTest, ResizesAsMonai) {
  const auto names = volume_golden_names("resize");
  EXPECT_EQ(names.size(), 5u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    bench.apply(
        SpatialResizeConfig{.spatial_size = integers_in(name[1]), .anti_aliasing = name[2] == "1"});
    expect_close(bench, "resize." + name[1] + "." + name[2]);
  }
  VolumeBench flat(golden_sample("flat"));
  expect_close(flat.apply(SpatialResizeConfig{.spatial_size = {-1, 9, 20}}), "resize_flat.9x20");
}

TEST(VolumeResampleTest, ResizesMasksAsMonai) {
  const auto names = volume_golden_names("resize_mask");
  EXPECT_EQ(names.size(), 6u);
  for (const auto& name : names) {
    VolumeBench bench(golden_sample("one"));
    bench.apply(SpatialResizeConfig{.spatial_size = integers_in(name[1]), .mask_mode = name[2]});
    EXPECT_EQ(bench.classes(), testing::golden_classes("resize_mask." + name[1] + "." + name[2]));
  }
}

TEST(VolumeResampleTest, ResamplesToSpacingAsMonai) {
  int64_t count = 0;
  for (const auto& name : volume_golden_names("spacing")) {
    // Numbers hold dots, at which the names were split: "1.0x1.0x1.0" is four pieces.
    ASSERT_EQ(name.size(), 6u);
    const std::string pixdim = name[1] + "." + name[2] + "." + name[3] + "." + name[4];
    Sample sample = golden_sample("one");
    sample.volume().spacing = {1.5, 0.8, 2.0};
    VolumeBench bench(sample);
    bench.apply(SpacingConfig{.pixdim = numbers_in(pixdim), .padding_mode = name[5]});
    expect_close(bench, "spacing." + pixdim + "." + name[5]);
    EXPECT_EQ(bench.item.spacing[2], numbers_in(pixdim)[2]);
    if (name[5] == "border") {
      EXPECT_EQ(bench.classes(), testing::golden_classes("spacing_mask." + pixdim));
    }
    ++count;
  }
  EXPECT_EQ(count, 9);
}

TEST(VolumeResampleTest, SpacingKeepsWhatIsThereAlready) {
  Sample sample = golden_sample("one");
  sample.volume().spacing = {1.5, 0.8, 2.0};
  VolumeBench bench(sample);
  bench.apply(SpacingConfig{.pixdim = {1.5, -1, 0}});
  EXPECT_EQ(bench.item.values.first, bench.sample.volume().values.data());
}

// Places after it and before; a ramp is reproduced by linear interpolation.
TEST(VolumeResampleTest, PlacesAreKnown) {
  Sample sample;
  sample.become<Volume>() = testing::place_volume({8, 9, 10});
  sample.volume().spacing = {2, 1, 1};
  VolumeBench resized(sample);
  resized.apply(SpatialResizeConfig{.spatial_size = {24, 9, 30}});
  const auto& values = resized.item.values;
  EXPECT_NEAR(values.row(0, 10, 4)[16], 3, 10 * kVolumeTolerance);
  EXPECT_NEAR(values.row(2, 10, 4)[16], 5, 10 * kVolumeTolerance);
  EXPECT_DOUBLE_EQ(resized.item.spacing[0], 2.0 / 3.0);
  VolumeBench spaced(sample);
  spaced.apply(SpacingConfig{.pixdim = {0.5}});
  EXPECT_NEAR(spaced.item.values.row(0, 12, 8)[10], 3, 10 * kVolumeTolerance);
  EXPECT_EQ(spaced.shape(), (std::vector<int64_t>{3, 29, 17, 19}));
}

TEST(VolumeResampleTest, SmoothsAsMonai) {
  for (const std::string sizes : {"0.25x0.7x1.5", "1.0x0.3x0.9"}) {
    const auto sigma = numbers_in(sizes);
    VolumeBench bench(golden_sample("two"));
    gaussian_smooth(bench.item, {sigma[0], sigma[1], sigma[2]}, bench.scratch);
    expect_close(bench, "smooth." + sizes);
  }
  VolumeBench flat(golden_sample("flat"));
  gaussian_smooth(flat.item, {0.7, 1.2, 0.6}, flat.scratch);
  expect_close(flat, "smooth_flat.1.2x0.6");
}

// A turned window is smoothed along its own axes.
TEST(VolumeResampleTest, SmoothingReadsThroughViews) {
  VolumeBench turned(golden_sample("two"));
  rotate90(turned.item, 1, 0, 2);
  gaussian_smooth(turned.item, {1.5, 0.7, 0.25}, turned.scratch);
  rotate90(turned.item, 3, 0, 2);
  expect_close(turned, "smooth.0.25x0.7x1.5");
}

TEST(VolumeResampleTest, KernelsSumToOne) {
  std::vector<float> kernel;
  for (const double sigma : {0.1, 0.25, 1.0, 4.7}) {
    gaussian_kernel(sigma, kernel);
    EXPECT_NEAR(std::accumulate(kernel.begin(), kernel.end(), 0.0), 1.0, kKernelTail) << sigma;
    EXPECT_EQ(kernel.size() % 2, 1u);
  }
}

}  // namespace
}  // namespace fovea::data
