#include "fovea/data/order/tile_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "fovea/data/loader.h"
#include "fovea/data/order/sample_order.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/data/transforms/any_transform.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::FakeDataset;

// Volumes of some numbers of tiles, one of them of none.
const std::vector<int64_t> kEnds = {3, 4, 4, 12, 14, 15, 20, 27, 30, 31};

std::vector<int64_t> epoch_of(const TileOrder& order, int64_t cycle) {
  std::vector<int64_t> tiles;
  for (int64_t place = 0; place < kEnds.back(); ++place) tiles.push_back(order.at(place, cycle));
  return tiles;
}

int64_t volume_of(int64_t tile) {
  return std::upper_bound(kEnds.begin(), kEnds.end(), tile) - kEnds.begin();
}

TEST(TileOrderTest, EveryTileOnceAndVolumesInWindows) {
  for (const int64_t window : {1, 2, 3, 10, 50}) {
    const TileOrder order({kEnds, window}, 7);
    for (const int64_t cycle : {0, 1, 6}) {
      const auto tiles = epoch_of(order, cycle);
      EXPECT_EQ(std::set<int64_t>(tiles.begin(), tiles.end()).size(), tiles.size());
      EXPECT_EQ(*std::max_element(tiles.begin(), tiles.end()), kEnds.back() - 1);
      // As many volumes as a window has, then others: no volume comes back.
      std::set<int64_t> done, open;
      std::map<int64_t, int64_t> left;
      for (const int64_t tile : tiles) ++left[volume_of(tile)];
      for (const int64_t tile : tiles) {
        const int64_t volume = volume_of(tile);
        ASSERT_FALSE(done.contains(volume));
        open.insert(volume);
        ASSERT_LE(static_cast<int64_t>(open.size()), window);
        if (--left[volume] > 0) continue;
        // A window ends where all its volumes do.
        if (std::all_of(open.begin(), open.end(), [&](int64_t one) { return left[one] == 0; })) {
          done.insert(open.begin(), open.end());
          open.clear();
        }
      }
    }
  }
}

TEST(TileOrderTest, IsAFunctionOfSeedCycleAndPlace) {
  const TileOrder order({kEnds, 3}, 7), again({kEnds, 3}, 7), other({kEnds, 3}, 8);
  const auto first = epoch_of(order, 2);
  EXPECT_NE(first, epoch_of(order, 3));
  EXPECT_NE(first, epoch_of(other, 2));
  EXPECT_EQ(again.at(17, 2), first[17]);  // entered in the middle
  EXPECT_EQ(epoch_of(order, 2), first);
  // Tiles of a window are mixed.
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
  EXPECT_NE(volume_of(first[0]), volume_of(first[1] + volume_of(first[2])));
}

SampleOrderOptions mix_of_tiles(MixMode mode) {
  SampleOrderOptions options{.global_batch_size = 4};
  options.mix.mode = mode;
  options.mix.set_sizes = {kEnds.back(), kEnds.back()};
  options.mix.weights = {1, 1};
  options.mix.tiles = {{kEnds, 2}, {kEnds, 2}};
  return options;
}

// A mix goes through each set's windows one after the other, though its batches come permuted.
TEST(TileOrderTest, InAMixEachSetKeepsItsWindows) {
  for (const auto mode : {MixMode::kExact, MixMode::kCycleToLargest, MixMode::kWeights}) {
    const SampleOrder order(mix_of_tiles(mode));
    std::map<int64_t, std::vector<int64_t>> seen;  // set -> volumes, in order
    std::map<int64_t, std::map<int64_t, int64_t>> counts;
    int64_t position = 0;
    for (int64_t i = 0; i < order.batches_per_epoch(); ++i) {
      const GlobalBatch batch = order.batch_at(position);
      for (int64_t row = 0; row < batch.rows; ++row) {
        const SamplePlace place = order.place(batch, row);
        if (place.cycle > 0) continue;
        ++counts[place.set][place.index];
        auto& volumes = seen[place.set];
        const int64_t volume = volume_of(place.index);
        const auto last = std::find(volumes.rbegin(), volumes.rend(), volume);
        // Among the last two that are new, or new itself.
        if (last == volumes.rend()) {
          volumes.push_back(volume);
        } else {
          EXPECT_LT(last - volumes.rbegin(), 2);
        }
      }
      position += batch.rows;
    }
    for (const int64_t set : {0, 1}) {
      EXPECT_EQ(static_cast<int64_t>(counts[set].size()), kEnds.back());
      for (const auto& [tile, count] : counts[set]) EXPECT_EQ(count, 1);
    }
  }
}

// Volumes that count how often they are decoded.
class CountedVolumes : public FakeDataset {
 public:
  using FakeDataset::FakeDataset;
  SampleForm form() const override { return SampleForm::kVolume; }
  VolumeSize size_of(int64_t) const override { return {4, 4, 8}; }
  int64_t channels_of(int64_t) const override { return 1; }
  void read(int64_t index, Sample& sample) const override {
    ++reads;
    sample.become<Volume>() = {.channels = 1, .size = {4, 4, 8}, .values = std::vector<float>(128)};
    std::iota(sample.volume().values.begin(), sample.volume().values.end(),
              static_cast<float>(1000 * index));
    sample.label = index % 10;
  }
  mutable std::atomic<int64_t> reads = 0;
};

struct TiledRun {
  std::vector<float> values;
  std::vector<int64_t> indices;
};

TiledRun run_of(const std::shared_ptr<const Dataset>& tiles, int64_t threads,
                const BatchShare& share, int64_t first_batch, int64_t batches) {
  const auto pipeline =
      std::make_shared<const VolumePipeline>(std::vector<VolumeTransformConfig>{}, 1);
  Loader loader(tiles, pipeline,
                {.global_batch_size = 6, .seed = 3, .threads = threads, .share = share});
  loader.seek(loader.position_of(first_batch));
  TiledRun run;
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = loader.next();
    run.values.insert(run.values.end(), batch.images.begin(), batch.images.end());
    run.indices.insert(run.indices.end(), batch.indices.begin(), batch.indices.end());
  }
  return run;
}

TEST(TileOrderTest, LoadersOfAnyThreadsRanksAndStartsAgree) {
  const auto source = std::make_shared<CountedVolumes>(12, 1);
  const auto tiles = std::make_shared<TiledDataset>(
      source, TilingConfig{.tile_size = {2, 2, 2}, .cached_volumes = 6});
  ASSERT_EQ(tiles->size(), 12 * 16);
  ASSERT_EQ(tiles->tile_windows().window, 3);
  const int64_t batches = tiles->size() / 6;
  const TiledRun one = run_of(tiles, 0, {}, 0, 2 * batches);
  // Each volume once an epoch; those that both its end and the next one's beginning want, once.
  EXPECT_LE(source->reads, 2 * 12);
  EXPECT_GT(source->reads, 12);
  const int64_t before = source->reads;
  const TiledRun many = run_of(tiles, 3, {}, 0, 2 * batches);
  EXPECT_EQ(many.values, one.values);
  EXPECT_LE(source->reads - before, 2 * 12);
  const TiledRun late = run_of(tiles, 2, {}, 11, 5);  // within a window
  EXPECT_TRUE(std::equal(late.values.begin(), late.values.end(), one.values.begin() + 11 * 6 * 8));
  const TiledRun a = run_of(tiles, 2, BatchShare::of_rank(0, 2), 0, batches),
                 b = run_of(tiles, 1, BatchShare::of_rank(1, 2), 0, batches);
  for (size_t i = 0; i < a.indices.size(); ++i) {
    const size_t row = i / 3 * 6 + i % 3;  // 3 of 6 rows each
    EXPECT_EQ(a.indices[i], one.indices[row]);
    EXPECT_EQ(b.indices[i], one.indices[row + 3]);
  }
}

TEST(TileOrderTest, HowManyVolumesAreKept) {
  const auto window_of = [](std::optional<int64_t> cached) {
    const TiledDataset tiled(std::make_shared<CountedVolumes>(12, 1),
                             {.tile_size = {2, 2, 2}, .cached_volumes = cached});
    return tiled.tile_windows().window;
  };
  EXPECT_EQ(window_of(1), 1);
  EXPECT_EQ(window_of(8), 4);
  EXPECT_EQ(window_of({}), 32);  // small ones: the most
  EXPECT_EQ(default_cached_volumes({.depth = 512, .height = 512, .width = 512}, 2), 4);
  EXPECT_EQ(default_cached_volumes({.depth = 192, .height = 192, .width = 192}, 2), 18);
  // In order two are enough.
  const auto source = std::make_shared<CountedVolumes>(4, 1);
  const TiledDataset ordered(source, {.tile_size = {4, 4, 8}}, TileReading::kInOrder);
  EXPECT_EQ(ordered.tile_windows().window, 0);
  Sample sample;
  for (const int64_t tile : {0, 1, 0, 2, 1}) ordered.read(tile, sample);
  EXPECT_EQ(source->reads, 4);
  // Tiles of images are shuffled all together.
  EXPECT_EQ(TiledDataset(std::make_shared<FakeDataset>(3, 10), {.tile_size = {4, 4}})
                .tile_windows()
                .window,
            0);
}

}  // namespace
}  // namespace fovea::data
