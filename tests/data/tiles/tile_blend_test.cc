#include "fovea/data/tiles/tile_blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "fovea/core/philox.h"
#include "tests/data/blended_tiles.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::blend_tiles;
using testing::golden;
using testing::golden_names;
using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kBlendFile = "data_tiling";

Volume random_volume(int64_t channels, VolumeSize size) {
  Volume volume{.channels = channels, .size = size, .spacing = {1, 1, 1}, .values = {}};
  RandomStream random(philox_key(3, "tile_blend_test"), static_cast<uint64_t>(size.voxels()));
  for (int64_t i = 0; i < channels * size.voxels(); ++i) {
    volume.values.push_back(static_cast<float>(random.uniform(-1000, 1000)));
  }
  return volume;
}

// All tiles of a volume, one after the other: [N, C, d, h, w].
std::vector<float> tiles_of(const Volume& volume, const Tiling& tiling) {
  std::vector<float> all;
  Volume cut;
  for (int64_t i = 0; i < tiling.count(); ++i) {
    extract_tile(volume, tiling.tile(i), cut);
    all.insert(all.end(), cut.values.begin(), cut.values.end());
  }
  return all;
}

TEST(TileWeightsTest, EqualMonais) {
  int maps = 0;
  for (const std::string prefix : {"gaussian", "gaussian_wide"}) {
    for (const auto& name : golden_names(prefix, kBlendFile)) {
      const auto& map = golden(prefix + "." + name[1], kBlendFile);
      VolumeSize size{1, map.shape[map.shape.size() - 2], map.shape.back()};
      if (map.shape.size() == 3) size.depth = map.shape[0];
      const auto weights =
          tile_weights(TileWeighting::kGaussian, size, prefix == "gaussian" ? 0.125 : 0.4);
      const auto expected = map.values<float>();
      ASSERT_EQ(weights.size(), expected.size());
      for (size_t i = 0; i < weights.size(); ++i) {
        ASSERT_NEAR(weights[i], expected[i], 1e-6f * expected[i]) << name[1] << " " << i;
      }
      ++maps;
    }
  }
  EXPECT_EQ(maps, 7);
  EXPECT_EQ(tile_weights(TileWeighting::kConstant, {1, 2, 2}), std::vector<float>(4, 1.0f));
}

// What was cut comes back bit for bit, for every overlap and weighting, padding and slices
// included.
TEST(TileBlenderTest, InverseOfTheIdentityIsTheIdentity) {
  int compared = 0;
  for (const VolumeSize size : {VolumeSize{7, 12, 9}, VolumeSize{1, 13, 17}, VolumeSize{3, 3, 3}}) {
    for (const double overlap : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9}) {
      for (const bool two_d : {false, true}) {
        for (const bool upstream_compatible : {false, true}) {
          if (upstream_compatible && (size.depth < 4 || size.height < 5)) continue;
          const Tiling tiling({.tile_size = {size.depth == 1 ? 1 : 4, 5, 6},
                               .tile_overlap = overlap,
                               .use_all_data = true,
                               .pad_small = true,
                               .two_d = two_d,
                               .upstream_compatible = upstream_compatible},
                              size);
          const Volume volume = random_volume(2, size);
          const auto tiles = tiles_of(volume, tiling);
          for (const auto weighting : {TileWeighting::kConstant, TileWeighting::kGaussian}) {
            const auto weights = tile_weights(weighting, tiling.tile_size());
            const Volume back = blend_tiles(tiling, 2, tiles, weights, NAN);
            ASSERT_EQ(back.size, size);
            // upstream's tiles leave voxels out for some overlaps; those come as `uncovered`
            for (size_t i = 0; i < back.values.size(); ++i) {
              if (upstream_compatible && std::isnan(back.values[i])) continue;
              ASSERT_EQ(back.values[i], volume.values[i]) << "overlap " << overlap << " at " << i;
            }
            ++compared;
          }
        }
      }
    }
  }
  EXPECT_EQ(compared, 96);
}

TEST(TileBlenderTest, OverlapIsTheWeightedMean) {
  const Tiling tiling({.tile_size = {1, 4}, .tile_overlap = 0.5}, {1, 1, 6});
  ASSERT_EQ(tiling.count(), 2);
  const std::vector<float> weights = {1, 2, 3, 4};
  const Volume blended =
      blend_tiles(tiling, 1, std::vector<float>{1, 1, 1, 1, 3, 3, 3, 3}, weights);
  const std::vector<float> expected = {
      1, 1, (3.0f * 1 + 1 * 3) / 4, static_cast<float>((4.0 * 1 + 2 * 3) / 6), 3, 3};
  EXPECT_EQ(blended.values, expected);
}

TEST(TileBlenderTest, WhatNoTileCoversIsSaid) {
  const Tiling tiling({.tile_size = {1, 4}}, {1, 1, 6});
  const auto weights = tile_weights(TileWeighting::kConstant, tiling.tile_size());
  EXPECT_EQ(blend_tiles(tiling, 1, std::vector<float>{1, 2, 3, 4}, weights, -7.0f).values,
            (std::vector<float>{1, 2, 3, 4, -7, -7}));
}

// Slabs come in order, each row once, as soon as no further tile reaches them, and hold what the
// whole holds.
TEST(TileBlenderTest, StreamsSlabBySlab) {
  for (const VolumeSize size : {VolumeSize{23, 6, 5}, VolumeSize{1, 23, 5}}) {
    const bool is_image = size.depth == 1;
    const Tiling tiling({.tile_size = {is_image ? 1 : 8, is_image ? 8 : 4, 4},
                         .tile_overlap = 0.5,
                         .use_all_data = true},
                        size);
    const Volume volume = random_volume(3, size);
    const auto tiles = tiles_of(volume, tiling);
    const auto weights = tile_weights(TileWeighting::kGaussian, tiling.tile_size());
    const Volume whole = blend_tiles(tiling, 3, tiles, weights);
    const int64_t row_values = size.voxels() / 23;
    int64_t next_row = 0, largest = 0;
    TileBlender blender(tiling, 3, weights,
                        [&](int64_t first, int64_t last, std::span<const float> values) {
                          ASSERT_EQ(first, next_row);
                          ASSERT_GT(last, first);
                          next_row = last;
                          largest = std::max(largest, last - first);
                          const int64_t count = (last - first) * row_values;
                          ASSERT_EQ(static_cast<int64_t>(values.size()), 3 * count);
                          for (int64_t c = 0; c < 3; ++c) {
                            for (int64_t i = 0; i < count; ++i) {
                              ASSERT_EQ(values[c * count + i],
                                        whole.values[c * size.voxels() + first * row_values + i]);
                            }
                          }
                        });
    const auto tile_values = static_cast<size_t>(3 * tiling.tile_size().voxels());
    for (int64_t i = 0; i < tiling.count(); ++i) {
      blender.add(std::span(tiles).subspan(static_cast<size_t>(i) * tile_values, tile_values));
      const int64_t start = tiling.tile(i).start[is_image ? 1 : 0];
      EXPECT_EQ(next_row, start) << "all rows before the tile are out";
    }
    blender.finish();
    EXPECT_EQ(next_row, 23);
    EXPECT_LE(largest, 8);
  }
}

TEST(TileBlenderTest, SaysWhatIsMissing) {
  const Tiling tiling({.tile_size = {2, 2}}, {1, 4, 4});
  const auto ignore = [](int64_t, int64_t, std::span<const float>) {};
  EXPECT_THROW(TileBlender(tiling, 1, std::vector<float>(3, 1.0f), ignore), Error);
  EXPECT_THROW(TileBlender(tiling, 1, std::vector<float>(4, 0.0f), ignore), Error);
  TileBlender blender(tiling, 1, std::vector<float>(4, 1.0f), ignore);
  EXPECT_THROW(blender.add(std::vector<float>(3)), Error);
  blender.add(std::vector<float>(4));
  EXPECT_THAT(message_of<Error>([&] { blender.finish(); }), HasSubstr("1 tiles of 4"));
  for (int i = 0; i < 3; ++i) blender.add(std::vector<float>(4));
  EXPECT_THROW(blender.add(std::vector<float>(4)), Error);
  blender.finish();
}

}  // namespace
}  // namespace fovea::data
