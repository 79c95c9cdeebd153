// UCF-VIT's scheme for volumes: of all edge voxels those whose gradient, within the slice, points
// into the upper half of the directions that occur.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fovea::data::patching {

struct EdgeVoxel {
  uint32_t index = 0;  // in [D, H, W]
  double dx = 0;       // Sobel of aperture 5
  double dy = 0;
  float position = 0;  // of the direction, growing with the angle: -2 at -pi, 2 at pi
};

// Sobel of aperture 5 at one pixel of a slice [H, W], border 101.
EdgeVoxel sobel5(const float* slice, int64_t height, int64_t width, int64_t y, int64_t x);

// Sets to 0 the counts of those `edges` whose direction, scaled so that the smallest that occurs
// becomes 0 and the largest 1, is not above one half. The voxels that are no edges count as
// direction 0, as there. counts [D, H, W].
void keep_upper_directions(std::span<const EdgeVoxel> edges, std::span<uint8_t> counts);

}  // namespace fovea::data::patching
