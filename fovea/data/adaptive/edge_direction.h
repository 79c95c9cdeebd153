// UCF-VIT's scheme for volumes: of all edge voxels those whose gradient, within the slice, points
// into the upper half of the directions that occur.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/data/volume/volume.h"

namespace fovea::data::patching {

struct EdgeVoxel {
  uint32_t index = 0;  // in [D, H, W]
  float dx = 0;        // Sobel of aperture 5, rounded
  float dy = 0;
  float position = 0;  // of the direction, growing with the angle: -2 at -pi, 2 at pi
};

// One channel, and buffers for a row of it.
struct DirectionScratch {
  std::vector<float> rows;  // [4, W + 4]
};

// Appends the edge voxels of row y of slice z of `volume` [D, H, W]; bits: ceil(W / 64) words.
void append_directions(const float* volume, VolumeSize size, int64_t z, int64_t y,
                       const uint64_t* bits, DirectionScratch& scratch,
                       std::vector<EdgeVoxel>& edges);

// Sets to 0 the counts of those `edges` whose direction, scaled so that the smallest that occurs
// becomes 0 and the largest 1, is not above one half. Voxels that are no edges count as direction
// 0, as there. volume: the channel that all edges come from, in which close cases are looked up;
// null: there are several, and the edges' own gradients serve. counts [D, H, W].
void keep_upper_directions(std::span<const EdgeVoxel> edges, const float* volume, VolumeSize size,
                           std::span<uint8_t> counts);

}  // namespace fovea::data::patching
