// Pictures of trees.
#pragma once

#include <array>
#include <cstdint>

#include "fovea/data/adaptive/tree.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/volume/slice_plane.h"

namespace fovea::data {

// Of the lines, RGB.
inline constexpr std::array<uint8_t, 3> kTreeColor = {255, 220, 0};

// The upper and left border of each leaf that the plane cuts, as lines one pixel wide in `picture`,
// RGB, which shows the whole plane at any size.
void outline_leaves(const PatchTree& tree, const SlicePlane& plane,
                    const std::array<uint8_t, 3>& color, Image& picture);

}  // namespace fovea::data
