#include "fovea/data/tiles/tiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "fovea/config/config.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kTilingGoldens = "data_tiling";

std::vector<int64_t> starts_of(const AxisTiles& axis) {
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < axis.count; ++i) starts.push_back(axis.start(i));
  return starts;
}

TEST(TileAxisTest, UpstreamsCountsAndPlaces) {
  const auto rows = golden("counts", kTilingGoldens).values<int64_t>();
  int64_t compared = 0, agree = 0;
  for (size_t i = 0; i < rows.size(); i += 7, ++compared) {
    const int64_t *row = rows.data() + i, size = row[0], tile = row[1];
    TilingConfig config{.tile_overlap = static_cast<double>(row[2]) / 1000,
                        .use_all_data = row[3] != 0,
                        .upstream_compatible = true};
    const AxisTiles axis = tile_axis(size, tile, config);
    SCOPED_TRACE(fmt::format("size {} tile {} permille {} all {}", size, tile, row[2], row[3]));
    ASSERT_EQ(axis.count, row[4]);
    ASSERT_EQ(axis.step, row[6]);
    if (axis.count > 0) {
      ASSERT_EQ(axis.start(axis.count - 1), row[5]);
    }
    // Where it is right, ours is the same: see AxisTiles.
    config.upstream_compatible = false;
    const int64_t shared = tile - axis.step;
    const bool is_half = shared * 2 == tile && (config.use_all_data || size % tile == 0);
    if (shared == 0 || is_half) {
      ASSERT_EQ(starts_of(tile_axis(size, tile, config)), starts_of(axis));
      ++agree;
    }
  }
  EXPECT_EQ(compared, 1170);
  EXPECT_GT(agree, 250);
}

// Every count, step and place over sizes 1 to 70, tiles 1 to 20 and 21 overlaps.
TEST(TileAxisTest, CoversAndCountsByFormula) {
  for (int64_t size = 1; size <= 70; ++size) {
    for (int64_t tile = 1; tile <= 20; ++tile) {
      for (int64_t percent = 0; percent < 100; percent = percent < 90 ? percent + 5 : percent + 3) {
        for (const bool use_all : {false, true}) {
          const TilingConfig config{.tile_overlap = static_cast<double>(percent) / 100,
                                    .use_all_data = use_all,
                                    .pad_small = true};
          const AxisTiles axis = tile_axis(size, tile, config);
          const auto starts = starts_of(axis);
          ASSERT_GE(axis.step, 1);
          ASSERT_EQ(axis.step,
                    tile - static_cast<int64_t>(static_cast<double>(tile) * config.tile_overlap));
          const int64_t rest = std::max<int64_t>(size - tile, 0);
          ASSERT_EQ(axis.count, (use_all ? rest + axis.step - 1 : rest) / axis.step + 1);
          ASSERT_EQ(starts.front(), 0);
          for (size_t i = 1; i < starts.size(); ++i) {
            ASSERT_GT(starts[i], starts[i - 1]);
            ASSERT_LE(starts[i], starts[i - 1] + axis.step);  // no gap
          }
          ASSERT_LE(starts.back(), rest);  // none past the edge
          if (use_all) {
            ASSERT_EQ(starts.back(), rest);  // and the last reaches it
          } else {
            ASSERT_GT(starts.back() + axis.step, rest);  // no tile that fits is left out
          }
        }
      }
    }
  }
}

// Tiles of UCF-VIT's own loader, in its order; its x, y, z are W, H, D (in 2-D: H, W).
TEST(TilingTest, UpstreamsTilesInItsOrder) {
  int cases = 0;
  for (const auto& name : golden_names("case", kTilingGoldens)) {
    const auto c = golden("case." + name[1], kTilingGoldens).values<int64_t>();
    const auto expected = golden("tiles." + name[1], kTilingGoldens).values<int64_t>();
    TilingConfig config{.tile_overlap = static_cast<double>(c[6]) / 1000,
                        .use_all_data = c[7] != 0,
                        .two_d = c[8] != 0,
                        .upstream_compatible = true};
    const bool is_2d = c[9] == 2;
    config.tile_size = is_2d ? std::vector{c[3], c[4]} : std::vector{c[5], c[4], c[3]};
    const Tiling tiling(config, is_2d ? VolumeSize{1, c[0], c[1]} : VolumeSize{c[2], c[1], c[0]});
    ASSERT_EQ(tiling.count() * 3, static_cast<int64_t>(expected.size())) << name[1];
    for (int64_t i = 0; i < tiling.count(); ++i) {
      const auto start = tiling.tile(i).start;
      const int64_t* x = expected.data() + 3 * i;
      const auto want = is_2d ? std::array{int64_t{0}, x[0], x[1]} : std::array{x[2], x[1], x[0]};
      ASSERT_EQ(start, want) << "case " << name[1] << " tile " << i;
    }
    ++cases;
  }
  EXPECT_EQ(cases, 9);
}

TEST(TilingTest, EveryVoxelIsCoveredWithUseAllData) {
  for (const double overlap : {0.0, 0.2, 0.5, 0.7}) {
    for (const VolumeSize size :
         {VolumeSize{9, 14, 11}, VolumeSize{4, 5, 30}, VolumeSize{2, 3, 4}}) {
      for (const bool two_d : {false, true}) {
        const Tiling tiling({.tile_size = {4, 5, 6},
                             .tile_overlap = overlap,
                             .use_all_data = true,
                             .pad_small = true,
                             .two_d = two_d},
                            size);
        std::vector<int> seen(static_cast<size_t>(size.voxels()));
        for (int64_t i = 0; i < tiling.count(); ++i) {
          const Tile tile = tiling.tile(i);
          EXPECT_EQ(tile.size, (two_d ? VolumeSize{1, 5, 6} : VolumeSize{4, 5, 6}));
          for (int64_t d = 0; d < tile.valid.depth; ++d)
            for (int64_t h = 0; h < tile.valid.height; ++h)
              for (int64_t w = 0; w < tile.valid.width; ++w)
                ++seen[((tile.start[0] + d) * size.height + tile.start[1] + h) * size.width +
                       tile.start[2] + w];
        }
        EXPECT_GE(*std::min_element(seen.begin(), seen.end()), 1);
      }
    }
  }
}

TEST(TilingTest, OrderIsRowMajor) {
  const Tiling tiling({.tile_size = {2, 2, 2}}, {4, 4, 6});
  std::vector<std::array<int64_t, 3>> starts;
  for (int64_t i = 0; i < tiling.count(); ++i) starts.push_back(tiling.tile(i).start);
  EXPECT_EQ(starts.size(), 12u);
  EXPECT_TRUE(std::is_sorted(starts.begin(), starts.end()));
  EXPECT_EQ(std::adjacent_find(starts.begin(), starts.end()), starts.end());
  EXPECT_TRUE(tiling.is_sorted_along(0));
  EXPECT_FALSE(tiling.is_sorted_along(1));
  EXPECT_FALSE(tiling.is_sorted_along(2));
}

TEST(TilingTest, SlicesOfAVolume) {
  const auto count = [](std::vector<int64_t> tile, bool use_all, int64_t depth) {
    return Tiling({.tile_size = std::move(tile), .use_all_data = use_all, .two_d = true},
                  {depth, 8, 8})
        .count();
  };
  EXPECT_EQ(count({4, 4, 4}, false, 10), 2 * 4 * 4);  // 8 of 10 slices
  EXPECT_EQ(count({4, 4, 4}, true, 10), 10 * 4);
  EXPECT_EQ(count({4, 4}, false, 10), 10 * 4);
  EXPECT_EQ(count({4, 4, 4}, false, 3), 3 * 4);  // shallower than a block
}

TEST(TilingTest, SaysWhatDoesNotFit) {
  EXPECT_THAT(message_of<ConfigError>([] {
                Tiling({.tile_size = {4, 4}}, {3, 8, 8});
              }),
              HasSubstr("two_d"));
  EXPECT_THAT(message_of<DataError>([] {
                Tiling({.tile_size = {4, 16}, .upstream_compatible = true}, {1, 8, 8});
              }),
              HasSubstr("upstream_compatible: false"));
  EXPECT_THAT(message_of<DataError>([] {
                Tiling({.tile_size = {4, 9}}, {1, 8, 8});
              }),
              HasSubstr("an axis of 8 is shorter than the tile's 9"));
  EXPECT_THROW(Tiling({.tile_size = {4}}, {1, 8, 8}), Error);
  EXPECT_THROW(Tiling({.tile_size = {4, 4}}, {1, 8, 8}).tile(4), Error);
}

TEST(TilingConfigTest, RefusesWhatCannotBe) {
  const auto errors = [](const std::string& text) {
    return message_of<ConfigError>([&] { parse_config<TilingConfig>(text, "recipe"); });
  };
  EXPECT_THAT(errors("tile_size: [4, 4, 4, 4]"), HasSubstr("4 numbers"));
  EXPECT_THAT(errors("tile_size: [0, 4]"), HasSubstr("below 1"));
  EXPECT_THAT(errors("{tile_size: [4, 4], tile_overlap: 1.0}"), HasSubstr("tile_overlap"));
  EXPECT_THAT(errors("tile_overlap: 0.5"), HasSubstr("tile_size"));
  const auto config =
      parse_config<TilingConfig>("{tile_size: [8, 9], tile_overlap: 0.25, two_d: true}", "recipe");
  EXPECT_EQ(config.tile_size, (std::vector<int64_t>{8, 9}));
  EXPECT_TRUE(config.two_d);
}

TEST(ExtractTileTest, CutsImagesVolumesAndMasks) {
  Sample sample;
  sample.become<Image>() = {3, 4, 2, {}};
  for (int i = 0; i < 24; ++i) sample.image().pixels.push_back(static_cast<uint8_t>(i));
  sample.mask.size = {1, 3, 4};
  for (int i = 0; i < 12; ++i) sample.mask.classes.push_back(i);
  sample.label = 5;
  const Tiling tiling({.tile_size = {2, 3}, .use_all_data = true}, {1, 3, 4});
  ASSERT_EQ(tiling.count(), 4);
  Sample out;
  extract_tile(sample, tiling.tile(3), out);  // rows 1-2, columns 1-3
  EXPECT_EQ(out.image().pixels,
            (std::vector<uint8_t>{10, 11, 12, 13, 14, 15, 18, 19, 20, 21, 22, 23}));
  EXPECT_EQ(out.mask.classes, (std::vector<int32_t>{5, 6, 7, 9, 10, 11}));
  EXPECT_EQ(out.label, 5);

  Volume volume{.channels = 2, .size = {2, 2, 3}, .spacing = {3, 2, 1}, .values = {}};
  volume.values.resize(24);
  std::iota(volume.values.begin(), volume.values.end(), 1.0f);
  Volume cut;
  extract_tile(volume, Tiling({.tile_size = {1, 1, 2}}, volume.size).tile(3), cut);
  EXPECT_EQ(cut.values, (std::vector<float>{10, 11, 22, 23}));
  EXPECT_EQ(cut.spacing, volume.spacing);
}

TEST(ExtractTileTest, PadsWhatIsSmallerThanATile) {
  const Tiling tiling({.tile_size = {2, 3, 4}, .pad_small = true}, {1, 2, 3});
  ASSERT_EQ(tiling.count(), 1);
  const Tile tile = tiling.tile(0);
  EXPECT_TRUE(tile.is_padded());
  EXPECT_EQ(tile.valid, (VolumeSize{1, 2, 3}));
  Volume volume{
      .channels = 1, .size = {1, 2, 3}, .spacing = {1, 1, 1}, .values = {1, 2, 3, 4, 5, 6}};
  Volume cut;
  cut.values.assign(24, 9.0f);  // a buffer with something in it
  extract_tile(volume, tile, cut);
  const std::vector<float> row = {1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0};
  EXPECT_TRUE(std::equal(row.begin(), row.end(), cut.values.begin()));
  EXPECT_EQ(std::accumulate(cut.values.begin() + 12, cut.values.end(), 0.0f), 0.0f);
  LabelMap labels{.size = {1, 2, 3}, .classes = {0, 1, 2, 3, 4, 5}}, labels_cut;
  extract_tile(labels, tile, labels_cut);
  EXPECT_EQ(std::count(labels_cut.classes.begin(), labels_cut.classes.end(), -1), 18);
}

}  // namespace
}  // namespace fovea::data
