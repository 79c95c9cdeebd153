// A whole volume out of its tiles.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/tiles/tile_blend.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data::testing {

// predictions: [N, C, d, h, w] -> [C, D, H, W]
inline Volume blend_tiles(const Tiling& tiling, int64_t channels,
                          std::span<const float> predictions, const std::vector<float>& weights,
                          float uncovered = 0.0f) {
  Volume result;
  result.channels = channels;
  result.size = tiling.sample_size();
  result.values.resize(static_cast<size_t>(channels * result.size.voxels()));
  const int64_t rows = result.size.depth > 1 ? result.size.depth : result.size.height;
  const int64_t row_values = result.size.voxels() / rows;
  const auto keep = [&](int64_t first, int64_t last, std::span<const float> values) {
    const int64_t count = (last - first) * row_values;
    for (int64_t c = 0; c < channels; ++c) {
      std::copy_n(values.data() + c * count, count,
                  result.values.data() + c * result.size.voxels() + first * row_values);
    }
  };
  TileBlender blender(tiling, channels, weights, keep, uncovered);
  const int64_t tile_values = channels * tiling.tile_size().voxels();
  FOVEA_CHECK(static_cast<int64_t>(predictions.size()) == tiling.count() * tile_values,
              "{} values; expected {} tiles of {}", predictions.size(), tiling.count(),
              tile_values);
  for (int64_t i = 0; i < tiling.count(); ++i) {
    blender.add(predictions.subspan(static_cast<size_t>(i * tile_values),
                                    static_cast<size_t>(tile_values)));
  }
  blender.finish();
  return result;
}

}  // namespace fovea::data::testing
