#include "fovea/data/tiles/tile_blend.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr float kSmallestWeight = 1e-3f;

// In float, as MONAI's: the square in float, its quotient too.
std::vector<float> gaussian(int64_t side, double sigma_scale) {
  const double sigma = static_cast<double>(side) * sigma_scale;
  const auto scale = static_cast<float>(-2 * sigma * sigma);
  std::vector<float> values(static_cast<size_t>(side));
  for (int64_t i = 0; i < side; ++i) {
    const float x = static_cast<float>(i) - static_cast<float>(side - 1) / 2.0f;
    values[i] = std::exp(x * x / scale);
  }
  return values;
}

}  // namespace

std::vector<float> tile_weights(TileWeighting weighting, VolumeSize tile, double sigma_scale) {
  if (weighting == TileWeighting::kConstant) {
    return std::vector<float>(static_cast<size_t>(tile.voxels()), 1.0f);
  }
  FOVEA_CHECK(sigma_scale > 0, "sigma_scale={}; expected a number above 0", sigma_scale);
  const auto along_d = gaussian(tile.depth, sigma_scale);
  const auto along_h = gaussian(tile.height, sigma_scale);
  const auto along_w = gaussian(tile.width, sigma_scale);
  std::vector<float> weights;
  weights.reserve(static_cast<size_t>(tile.voxels()));
  for (const float d : along_d) {
    for (const float h : along_h) {
      for (const float w : along_w) weights.push_back(std::max(d * h * w, kSmallestWeight));
    }
  }
  return weights;
}

TileBlender::TileBlender(const Tiling& tiling, int64_t channels, std::vector<float> weights,
                         Sink sink, float uncovered)
    : tiling_(tiling),
      channels_(channels),
      weights_(std::move(weights)),
      sink_(std::move(sink)),
      uncovered_(uncovered) {
  FOVEA_CHECK(channels > 0, "channels={}; expected a number above 0", channels);
  FOVEA_CHECK(static_cast<int64_t>(weights_.size()) == tiling_.tile_size().voxels(),
              "{} weights; expected {}, one for each voxel of a tile", weights_.size(),
              tiling_.tile_size().voxels());
  for (const float weight : weights_) {
    FOVEA_CHECK(weight > 0 && std::isfinite(weight), "weight {}; expected numbers above 0", weight);
  }
  const VolumeSize size = tiling_.sample_size();
  slab_axis_ = size.depth > 1 ? 0 : 1;
  row_values_ = slab_axis_ == 0 ? size.height * size.width : size.width;
  const AxisTiles& axis = tiling_.axes()[slab_axis_];
  window_rows_ = tiling_.is_sorted_along(slab_axis_) ? std::min(axis.tile, axis.size) : axis.size;
  sums_.resize(static_cast<size_t>(channels_ * window_rows_ * row_values_));
  weight_sums_.resize(static_cast<size_t>(window_rows_ * row_values_));
}

void TileBlender::add(std::span<const float> values) {
  FOVEA_CHECK(next_tile_ < tiling_.count(), "one tile more than the {} there are", tiling_.count());
  const Tile tile = tiling_.tile(next_tile_);
  FOVEA_CHECK(static_cast<int64_t>(values.size()) == channels_ * tile.size.voxels(),
              "{} values for a tile; expected {} channels of {}x{}x{}", values.size(), channels_,
              tile.size.depth, tile.size.height, tile.size.width);
  ++next_tile_;
  if (tiling_.is_sorted_along(slab_axis_)) {
    emit_until(std::min(tile.start[slab_axis_], tiling_.axes()[slab_axis_].size));
  }
  for (int64_t d = 0; d < tile.valid.depth; ++d) {
    for (int64_t h = 0; h < tile.valid.height; ++h) add_row(tile, values, d, h);
  }
}

// One row along W of every channel.
void TileBlender::add_row(const Tile& tile, std::span<const float> values, int64_t d, int64_t h) {
  const VolumeSize size = tiling_.sample_size();
  const int64_t depth = tile.start[0] + d;
  const int64_t height = tile.start[1] + h;
  const int64_t in_window = slab_axis_ == 0
                                ? ((depth - first_row_) * size.height + height) * size.width
                                : (height - first_row_) * size.width;
  const int64_t target = in_window + tile.start[2];
  const int64_t in_tile = (d * tile.size.height + h) * tile.size.width;
  const float* weights = weights_.data() + in_tile;
  double* weight_sums = weight_sums_.data() + target;
  for (int64_t w = 0; w < tile.valid.width; ++w) weight_sums[w] += weights[w];
  for (int64_t c = 0; c < channels_; ++c) {
    const float* row = values.data() + c * tile.size.voxels() + in_tile;
    double* sums = sums_.data() + c * window_rows_ * row_values_ + target;
    for (int64_t w = 0; w < tile.valid.width; ++w) {
      sums[w] += static_cast<double>(weights[w]) * static_cast<double>(row[w]);
    }
  }
}

void TileBlender::emit_until(int64_t row) {
  while (first_row_ < row) emit(std::min(row - first_row_, window_rows_));
}

// Hands the window's first rows on and moves the others up.
void TileBlender::emit(int64_t rows) {
  const int64_t count = rows * row_values_;
  const int64_t window = window_rows_ * row_values_;
  out_.resize(static_cast<size_t>(channels_ * count));
  for (int64_t c = 0; c < channels_; ++c) {
    double* sums = sums_.data() + c * window;
    float* out = out_.data() + c * count;
    for (int64_t i = 0; i < count; ++i) {
      out[i] = weight_sums_[i] > 0 ? static_cast<float>(sums[i] / weight_sums_[i]) : uncovered_;
    }
    std::fill(std::copy(sums + count, sums + window, sums), sums + window, 0.0);
  }
  double* weights = weight_sums_.data();
  std::fill(std::copy(weights + count, weights + window, weights), weights + window, 0.0);
  const int64_t first = first_row_;
  first_row_ += rows;
  sink_(first, first_row_, out_);
}

void TileBlender::finish() {
  FOVEA_CHECK(next_tile_ == tiling_.count(), "{} tiles of {}; add them all before the end",
              next_tile_, tiling_.count());
  emit_until(tiling_.axes()[slab_axis_].size);
}

}  // namespace fovea::data
