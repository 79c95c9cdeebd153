#include "fovea/data/dataset_views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/image/png.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;

TEST(SubsetDatasetTest, SharesMeetWithoutGapOrOverlap) {
  for (const int64_t size : {10, 53, 99}) {
    const auto source = std::make_shared<FakeDataset>(size, 4);
    for (const double cut : {0.1, 0.3, 0.55, 0.9}) {
      const SubsetDataset first(source, 0.0, cut), rest(source, cut, 1.0);
      ASSERT_EQ(first.size(), static_cast<int64_t>(cut * static_cast<double>(size)));
      ASSERT_EQ(first.size() + rest.size(), size);
      Sample a, b;
      source->read(first.size(), a);
      rest.read(0, b);
      EXPECT_EQ(a.image().pixels, b.image().pixels);
      EXPECT_EQ(rest.describe(0), source->describe(first.size()));
      EXPECT_EQ(rest.size_of(0), (VolumeSize{1, 4, 4}));
      EXPECT_EQ(rest.num_classes(), 10);
      EXPECT_THROW(first.read(first.size(), a), Error);
    }
  }
  EXPECT_THAT(
      message_of<ConfigError>([] { SubsetDataset(std::make_shared<FakeDataset>(3, 4), 0.1, 0.2); }),
      HasSubstr("0 <= start < end <= 1"));
}

TEST(SubsetDatasetTest, OneSampleAlone) {
  const auto source = std::make_shared<FakeDataset>(5, 4);
  const auto third = SubsetDataset::of_one(source, 2);
  ASSERT_EQ(third->size(), 1);
  Sample a, b;
  source->read(2, a);
  third->read(0, b);
  EXPECT_EQ(a.image().pixels, b.image().pixels);
  EXPECT_EQ(third->describe(0), source->describe(2));
  EXPECT_THROW(third->read(1, b), Error);
  EXPECT_THROW(SubsetDataset::of_one(source, 5), Error);
}

// Samples of two channels, as image or volume.
class TwoChannels : public FakeDataset {
 public:
  explicit TwoChannels(SampleForm form) : FakeDataset(2, 2), form_(form) {}
  SampleForm form() const override { return form_; }
  void read(int64_t, Sample& sample) const override {
    if (form_ == SampleForm::kImage) {
      sample.become<Image>() = {1, 3, 2, {1, 11, 2, 12, 3, 13}};
    } else {
      sample.become<Volume>() = {
          .channels = 2, .size = {1, 1, 3}, .spacing = {}, .values = {1, 2, 3, 4, 5, 6}};
    }
  }

 private:
  SampleForm form_;
};

using Channels = std::vector<int64_t>;

TEST(ChannelsDatasetTest, KeepsSomeChannels) {
  Sample sample;
  const ChannelsDataset images(std::make_shared<TwoChannels>(SampleForm::kImage), Channels{1});
  images.read(0, sample);
  EXPECT_EQ(sample.image().channels, 1);
  EXPECT_EQ(sample.image().pixels, (std::vector<uint8_t>{11, 12, 13}));
  const ChannelsDataset turned(std::make_shared<TwoChannels>(SampleForm::kImage), Channels{1, 0});
  turned.read(0, sample);
  EXPECT_EQ(sample.image().channels, 2);
  EXPECT_EQ(sample.image().pixels, (std::vector<uint8_t>{11, 1, 12, 2, 13, 3}));
  const ChannelsDataset volumes(std::make_shared<TwoChannels>(SampleForm::kVolume), Channels{1});
  volumes.read(0, sample);
  EXPECT_EQ(sample.volume().channels, 1);
  EXPECT_EQ(sample.volume().values, (std::vector<float>{4, 5, 6}));
  const ChannelsDataset both(std::make_shared<TwoChannels>(SampleForm::kVolume), Channels{1, 0});
  both.read(0, sample);
  EXPECT_EQ(sample.volume().values, (std::vector<float>{4, 5, 6, 1, 2, 3}));
  const ChannelsDataset none(std::make_shared<TwoChannels>(SampleForm::kVolume), Channels{0, 2});
  EXPECT_THAT(message_of<DataError>([&] { none.read(0, sample); }), HasSubstr("variables"));
  for (const auto& wrong : {Channels{-1}, Channels{0, 0}}) {
    EXPECT_THAT(message_of<ConfigError>([&] {
                  ChannelsDataset(std::make_shared<TwoChannels>(SampleForm::kImage), wrong);
                }),
                HasSubstr("channels:"));
  }
}

// As a key of a format, whatever it is.
TEST(ChannelsDatasetTest, IsAKeyOfEveryFormat) {
  const testing::TempDir dir;
  dir.write("a/0.png", encode_png({2, 2, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}));
  FolderConfig folder;
  folder.path = dir.path();
  folder.channels = {2, 0};
  const auto dataset = build_dataset({folder});
  Sample sample;
  dataset->read(0, sample);
  EXPECT_EQ(sample.image().channels, 2);
  EXPECT_EQ(sample.image().pixels, (std::vector<uint8_t>{3, 1, 6, 4, 9, 7, 12, 10}));
}

}  // namespace
}  // namespace fovea::data
