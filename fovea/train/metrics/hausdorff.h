// The Hausdorff distance of two masks, with MONAI's numbers.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fovea/data/volume/volume.h"

namespace fovea::train {

struct HausdorffOptions {
  double percentile = 95;  // in [0, 100]; 100: the largest distance
  // 2: the neighbours of a voxel are those in its slice, and depth is 1; 3: of a volume.
  int spatial_dims = 3;
  std::array<double, 3> spacing = {1, 1, 1};  // between voxels along D, H, W
};

// The larger one of both directions' percentiles of the distances from each surface voxel of a mask
// to the nearest one of the other (MONAI's HausdorffDistanceMetric, directed off). A surface voxel
// is one with a face on a voxel outside of the mask, or on the edge. NaN: neither mask has a voxel;
// also NaN where one has none, as MONAI with a percentile, since no distance is finite then.
// predicted, label: [D, H, W], 0 is outside.
double hausdorff_distance(std::span<const uint8_t> predicted, std::span<const uint8_t> label,
                          data::VolumeSize size, const HausdorffOptions& options);

}  // namespace fovea::train
