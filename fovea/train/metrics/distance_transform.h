// The exact Euclidean distance transform.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/volume/volume.h"

namespace fovea::train {

// Of each voxel the squared distance to the nearest voxel of `is_site` that is not 0, voxels being
// `spacing` apart along D, H, W; infinity where there is none. is_site: [D, H, W] -> [D, H, W].
// One lower envelope of parabolas a line and axis, so that the cost is linear in the voxels
// (Felzenszwalb and Huttenlocher 2012, "Distance Transforms of Sampled Functions").
std::vector<double> squared_distances(std::span<const uint8_t> is_site, data::VolumeSize size,
                                      const std::array<double, 3>& spacing = {1, 1, 1});

}  // namespace fovea::train
