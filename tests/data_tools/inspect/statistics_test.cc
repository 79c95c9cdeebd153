#include "fovea/data_tools/inspect/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/data_tools/inspect_support.h"

namespace fovea::data {
namespace {

using ::testing::ElementsAre;
using testing::golden;
using ::testing::HasSubstr;
using testing::MemoryDataset;
using ::testing::Pair;
using testing::plain_image;

// numpy sums in another order, in double.
constexpr double kNumpyTolerance = 1e-12;

void expect_moments(const std::vector<ChannelMoments>& moments, const std::string& name) {
  const auto& array = golden(name, "data_inspect");
  const auto expected = array.values<double>();
  ASSERT_EQ(static_cast<int64_t>(moments.size()), array.shape.at(0));
  for (size_t c = 0; c < moments.size(); ++c) {
    const std::array<double, 4> found = {moments[c].mean, moments[c].std, moments[c].least,
                                         moments[c].most};
    for (size_t i = 0; i < 4; ++i) {
      const double wanted = expected[4 * c + i];
      EXPECT_NEAR(found[i], wanted, kNumpyTolerance * std::max(1.0, std::abs(wanted))) << name;
    }
  }
}

TEST(InspectStatisticsTest, MomentsOfImagesAreNumpys) {
  std::vector<Sample> samples(5);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i].become<Image>() = golden(fmt::format("image.{}", i), "data_inspect").image();
  }
  const MemoryDataset dataset(samples, {});
  expect_moments(compute_statistics(dataset).moments, "moments.3");
  expect_moments(compute_statistics(dataset, {.channels = 3}).moments, "moments.3");
  expect_moments(compute_statistics(dataset, {.channels = 1}).moments, "moments.1");
  EXPECT_THAT(compute_statistics(dataset).channels, ElementsAre(Pair(1, 2), Pair(3, 3)));
}

TEST(InspectStatisticsTest, MomentsOfVolumesAreNumpys) {
  std::vector<Sample> samples(3);
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto& array = golden(fmt::format("volume.{}", i), "data_inspect");
    samples[i].become<Volume>() = {array.shape[0],
                                   {array.shape[1], array.shape[2], array.shape[3]},
                                   {1, 1, 1},
                                   array.values<float>()};
  }
  const MemoryDataset dataset(samples, {}, SampleForm::kVolume);
  expect_moments(compute_statistics(dataset).moments, "moments.volumes");
}

// Wide rows are summed in pieces; the sum of squares of white pixels is the largest there is.
TEST(InspectStatisticsTest, WideWhiteImagesDoNotOverflow) {
  const auto statistics =
      compute_statistics(MemoryDataset({plain_image(2, 150'000, 1, 255, 0)}, {"a"}));
  ASSERT_EQ(statistics.moments.size(), 1u);
  EXPECT_EQ(statistics.moments[0].mean, 1);
  EXPECT_EQ(statistics.moments[0].std, 0);
}

TEST(InspectStatisticsTest, CountsWhatIsThere) {
  MemoryDataset dataset(
      {plain_image(4, 4, 1, 1, 0), plain_image(4, 4, 1, 2, 0), plain_image(8, 2, 1, 3, 2),
       plain_image(2, 3, 1, 4, -1), plain_image(9, 9, 1, 5, 0)},
      {"cat", "dog", "owl"});
  dataset.broken = {1};
  const auto statistics = compute_statistics(dataset);
  EXPECT_EQ(statistics.samples, 5);
  EXPECT_EQ(statistics.inspected, 5);
  EXPECT_FALSE(statistics.is_subset());
  EXPECT_THAT(statistics.class_counts, ElementsAre(2, 0, 1));
  EXPECT_EQ(statistics.unlabelled, 1);
  EXPECT_EQ(statistics.records.size(), 4u);
  ASSERT_EQ(statistics.damaged.size(), 1u);
  EXPECT_EQ(statistics.damaged[0].index, 1);
  EXPECT_THAT(statistics.damaged[0].reason, HasSubstr("memory[1]: cut short"));
  EXPECT_EQ(statistics.sizes.size(), 4u);
  const auto sizes = summarize_sizes(statistics.sizes);
  EXPECT_EQ(sizes.smallest, (Extent{1, 2, 3}));
  EXPECT_EQ(sizes.median, (Extent{1, 4, 4}));  // 6, 16, 16, 81 pixels: the second of four
  EXPECT_EQ(sizes.largest, (Extent{1, 9, 9}));
}

TEST(InspectStatisticsTest, CountsVoxelsOfMasks) {
  std::vector<Sample> samples = {testing::drawn_volume(1, {1, 2, 3}, 0),
                                 testing::drawn_volume(1, {1, 2, 3}, 1)};
  samples[0].mask = {{1, 2, 3}, {0, 0, 2, 2, -1, 0}};
  samples[1].mask = {{1, 2, 3}, {0, 0, 0, 0, 0, 2}};
  MemoryDataset dataset(samples, {"air", "bone", "fat"}, SampleForm::kVolume);
  dataset.has_masks_ = true;
  const auto statistics = compute_statistics(dataset);
  EXPECT_THAT(statistics.voxel_counts, ElementsAre(8, 0, 3));
  EXPECT_THAT(statistics.samples_with, ElementsAre(2, 0, 2));
  EXPECT_EQ(statistics.unlabelled_voxels, 1);
}

TEST(InspectStatisticsTest, VolumesWithNanAreDamaged) {
  std::vector<Sample> samples = {testing::drawn_volume(1, {2, 2, 2}, 0),
                                 testing::drawn_volume(1, {2, 2, 2}, 1)};
  samples[1].volume().values[3] = std::numeric_limits<float>::quiet_NaN();
  const auto statistics = compute_statistics(MemoryDataset(samples, {}, SampleForm::kVolume));
  ASSERT_EQ(statistics.damaged.size(), 1u);
  EXPECT_EQ(statistics.damaged[0].index, 1);
  EXPECT_THAT(statistics.damaged[0].reason, HasSubstr("1 of 8 values are NaN"));
  EXPECT_TRUE(std::isfinite(statistics.moments.at(0).mean));
}

void expect_same(const SetStatistics& a, const SetStatistics& b) {
  EXPECT_EQ(a.sizes, b.sizes);
  EXPECT_EQ(a.class_counts, b.class_counts);
  ASSERT_EQ(a.records.size(), b.records.size());
  for (size_t i = 0; i < a.records.size(); ++i) {
    EXPECT_EQ(a.records[i].hash, b.records[i].hash);
    EXPECT_EQ(a.records[i].index, b.records[i].index);
  }
  ASSERT_EQ(a.moments.size(), b.moments.size());
  for (size_t c = 0; c < a.moments.size(); ++c) {  // to the last bit
    EXPECT_EQ(a.moments[c].mean, b.moments[c].mean);
    EXPECT_EQ(a.moments[c].std, b.moments[c].std);
  }
}

TEST(InspectStatisticsTest, DoNotDependOnThreads) {
  std::vector<Sample> volumes;
  for (uint64_t i = 0; i < 40; ++i) {
    volumes.push_back(testing::drawn_volume(2, {3, static_cast<int64_t>(4 + i % 3), 5}, i));
  }
  const MemoryDataset dataset(volumes, {}, SampleForm::kVolume);
  const auto one = compute_statistics(dataset, {.threads = 1});
  expect_same(one, compute_statistics(dataset, {.threads = 2}));
  expect_same(one, compute_statistics(dataset, {.threads = 7}));
  const testing::FakeDataset images(500, 6, {3, 77});
  expect_same(compute_statistics(images, {.threads = 1}),
              compute_statistics(images, {.threads = 5}));
}

TEST(InspectStatisticsTest, ASubsetIsEvenAndTheSameEveryTime) {
  const testing::FakeDataset dataset(1000, 4);
  int64_t last = 0;
  const auto statistics =
      compute_statistics(dataset, {.max_samples = 10, .progress = [&](int64_t done, int64_t total) {
                                     EXPECT_EQ(total, 10);
                                     last = done;
                                   }});
  EXPECT_EQ(last, 10);
  EXPECT_TRUE(statistics.is_subset());
  EXPECT_EQ(statistics.samples, 1000);
  EXPECT_EQ(statistics.inspected, 10);
  std::vector<int64_t> indices;
  for (const auto& record : statistics.records) indices.push_back(record.index);
  EXPECT_THAT(indices, ElementsAre(0, 100, 200, 300, 400, 500, 600, 700, 800, 900));
}

// Equal bytes in another shape are another picture.
TEST(InspectStatisticsTest, HashesTellShapesApart) {
  const auto statistics =
      compute_statistics(MemoryDataset({plain_image(2, 6, 1, 9, 0), plain_image(6, 2, 1, 9, 0),
                                        plain_image(2, 2, 3, 9, 0), plain_image(2, 6, 1, 9, 0)},
                                       {"a"}));
  const auto& records = statistics.records;
  EXPECT_NE(records[0].hash, records[1].hash);
  EXPECT_NE(records[0].hash, records[2].hash);
  EXPECT_NE(records[1].hash, records[2].hash);
  EXPECT_EQ(records[0].hash, records[3].hash);
}

}  // namespace
}  // namespace fovea::data
