#include "fovea/data/tiles/tiled.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/tiles/tile_blend.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "tests/data/blended_tiles.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::blend_tiles;
using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;

// Volumes of several sizes whose voxels tell where they are; counts how often it is read.
class TiledVolumes : public FakeDataset {
 public:
  explicit TiledVolumes(std::vector<VolumeSize> sizes)
      : FakeDataset(static_cast<int64_t>(sizes.size()), 1), sizes_(std::move(sizes)) {}
  SampleForm form() const override { return SampleForm::kVolume; }
  bool has_masks() const override { return true; }
  VolumeSize size_of(int64_t index) const override { return sizes_.at(static_cast<size_t>(index)); }
  int64_t channels_of(int64_t /*index*/) const override { return 1; }
  void read(int64_t index, Sample& sample) const override {
    ++reads;
    sample.become<Volume>().channels = 1;
    sample.volume().size = has_grown ? VolumeSize{9, 9, 9} : size_of(index);
    sample.mask.size = sample.volume().size;
    sample.volume().values.clear();
    sample.mask.classes.clear();
    for (int64_t i = 0; i < sample.volume().size.voxels(); ++i) {
      sample.volume().values.push_back(static_cast<float>(1000 * index + i));
      sample.mask.classes.push_back(static_cast<int32_t>(i % 4));
    }
    sample.label = index;
  }
  mutable std::atomic<int> reads = 0;
  bool has_grown = false;

 private:
  std::vector<VolumeSize> sizes_;
};

TEST(TiledDatasetTest, TilesOfSamplesInOrder) {
  const auto source =
      std::make_shared<TiledVolumes>(std::vector<VolumeSize>{{4, 4, 4}, {2, 2, 2}, {4, 2, 6}});
  const TiledDataset tiled(source, {.tile_size = {2, 2, 2}});
  EXPECT_EQ(source->reads, 0);
  ASSERT_EQ(tiled.size(), 8 + 1 + 6);
  EXPECT_EQ(tiled.num_classes(), 10);
  EXPECT_TRUE(tiled.has_masks());
  EXPECT_EQ(tiled.first_tile(2), 9);
  EXPECT_EQ(tiled.num_tiles(2), 6);
  EXPECT_EQ(tiled.sample_of(8), 1);
  EXPECT_EQ(tiled.describe(11), "fake[2] tile 2 of 6");
  EXPECT_EQ(tiled.size_of(3), (VolumeSize{2, 2, 2}));
  Sample sample;
  for (int64_t i = 0; i < tiled.size(); ++i) {
    tiled.read(i, sample);
    const int64_t whole = tiled.sample_of(i);
    const Tile tile = tiled.tiling(whole).tile(i - tiled.first_tile(whole));
    const VolumeSize size = source->size_of(whole);
    const int64_t first =
        (tile.start[0] * size.height + tile.start[1]) * size.width + tile.start[2];
    EXPECT_EQ(sample.volume().values[0], static_cast<float>(1000 * whole + first));
    EXPECT_EQ(sample.mask.classes[0], first % 4);
    EXPECT_EQ(sample.mask.size, tile.size);
    EXPECT_EQ(sample.label, whole);
  }
  EXPECT_EQ(source->reads, 3);  // each sample once
  EXPECT_THROW(tiled.read(15, sample), Error);
}

TEST(TiledDatasetTest, ManyThreadsReadASampleOnce) {
  const auto source = std::make_shared<TiledVolumes>(std::vector<VolumeSize>(1, {8, 8, 8}));
  const TiledDataset tiled(source, {.tile_size = {2, 2, 2}, .tile_overlap = 0.5});
  ASSERT_EQ(tiled.size(), 343);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Sample sample;
      for (int64_t i = t; i < tiled.size(); i += 4) tiled.read(i, sample);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(source->reads, 1);
}

TEST(TiledDatasetTest, NamesTheFirstSampleThatCannotBeCut) {
  std::vector<VolumeSize> sizes(500, {4, 4, 4});
  sizes[300] = sizes[123] = sizes[490] = {4, 4, 1};
  const auto source = std::make_shared<TiledVolumes>(sizes);
  EXPECT_THAT(message_of<DataError>([&] {
                TiledDataset(source, {.tile_size = {2, 2, 2}, .upstream_compatible = true});
              }),
              HasSubstr("fake[123]: an axis of 1"));
}

TEST(TiledDatasetTest, NoticesAFileThatChanged) {
  const auto source = std::make_shared<TiledVolumes>(std::vector<VolumeSize>(1, {4, 4, 4}));
  const TiledDataset tiled(source, {.tile_size = {2, 2, 2}});
  source->has_grown = true;
  Sample sample;
  EXPECT_THAT(message_of<DataError>([&] { tiled.read(0, sample); }),
              HasSubstr("4 x 4 x 4 when the data set was opened"));
}

TEST(TiledDatasetTest, AnErrorOfTheSourceIsNotKept) {
  class Flaky : public FakeDataset {
   public:
    using FakeDataset::FakeDataset;
    VolumeSize size_of(int64_t) const override { return {1, 8, 8}; }
    void read(int64_t index, Sample& sample) const override {
      if (++tries == 1) fail<DataError>("the disk answers late");
      FakeDataset::read(index, sample);
    }
    mutable int tries = 0;
  };
  const TiledDataset tiled(std::make_shared<Flaky>(4, 8), {.tile_size = {4, 4}});
  Sample sample;
  EXPECT_THROW(tiled.read(0, sample), DataError);
  tiled.read(0, sample);
  EXPECT_EQ(sample.image().height, 4);
}

// Batches of tiles from a loader, put together again.
TEST(TiledDatasetTest, LoaderAndBack) {
  const auto tiled = std::make_shared<TiledDataset>(
      std::make_shared<FakeDataset>(3, 10),
      TilingConfig{.tile_size = {4, 4}, .tile_overlap = 0.25, .use_all_data = true});
  ASSERT_EQ(tiled->size(), 3 * 9);
  const auto pipeline = std::make_shared<TransformPipeline>(std::vector<TransformConfig>{}, 1);
  Loader loader(tiled, pipeline, {.global_batch_size = 9, .shuffle = false, .threads = 2});
  for (int64_t image = 0; image < 3; ++image) {
    const Batch batch = loader.next();
    const Tiling tiling = tiled->tiling(image);
    const Volume back = blend_tiles(tiling, 1, batch.images,
                                    tile_weights(TileWeighting::kGaussian, tiling.tile_size()));
    Sample whole;
    tiled->source().read(image, whole);
    for (size_t i = 0; i < 100; ++i) {
      ASSERT_EQ(back.values[i], static_cast<float>(whole.image().pixels[i]) / 255.0f);
    }
  }
}

}  // namespace
}  // namespace fovea::data
