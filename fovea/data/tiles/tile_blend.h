// Predictions of tiles, blended back into one image or volume, slab after slab, so that the whole
// need not fit into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/data/tiles/tiling.h"

namespace fovea::data {

enum class TileWeighting {
  kConstant,  // each tile counts the same: the mean where tiles overlap
  kGaussian,  // less towards the tile's edges
};

// The weight of each voxel of a tile, [d, h, w]: those of MONAI's compute_importance_map. Gaussian:
// the product over the axes of exp(-x^2 / (2 (sigma_scale * side)^2)), x from the tile's middle,
// and nowhere below 1e-3.
std::vector<float> tile_weights(TileWeighting weighting, VolumeSize tile,
                                double sigma_scale = 0.125);

// Sums weight * prediction and weight in float64 and divides: a voxel that one tile covers comes
// out as it went in, bit for bit.
class TileBlender {
 public:
  // Rows [first, last) of the result along the slab axis (depth; height where the depth is 1):
  // [C, last - first, H, W], or [C, last - first, W]. Called in order, each row once.
  using Sink = std::function<void(int64_t first, int64_t last, std::span<const float> values)>;

  // weights: [d, h, w], above 0; `uncovered` is written where no tile lies. Holds C + 1 float64
  // slabs of one tile's thickness (of the whole sample's with upstream_compatible's order).
  TileBlender(const Tiling& tiling, int64_t channels, std::vector<float> weights, Sink sink,
              float uncovered = 0.0f);

  // The prediction for the next tile, in the order of `tiling`: [C, d, h, w], padding included.
  void add(std::span<const float> values);
  // Hands the last rows on; throws Error where tiles are missing.
  void finish();

 private:
  void add_row(const Tile& tile, std::span<const float> values, int64_t d, int64_t h);
  void emit_until(int64_t row);
  void emit(int64_t rows);

  Tiling tiling_;
  int64_t channels_;
  std::vector<float> weights_;
  Sink sink_;
  float uncovered_;
  int slab_axis_;
  int64_t row_values_;   // voxels of one row of a slab
  int64_t window_rows_;  // rows that are held
  int64_t first_row_ = 0;
  int64_t next_tile_ = 0;
  std::vector<double> sums_;         // [C, window_rows, row_values]
  std::vector<double> weight_sums_;  // [window_rows, row_values]
  std::vector<float> out_;
};

}  // namespace fovea::data
