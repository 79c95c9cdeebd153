// Pictures of trees.
#pragma once

#include <array>
#include <cstdint>

#include "fovea/data/adaptive/tree.h"
#include "fovea/data/image/image_view.h"
#include "fovea/data/volume/slice_plane.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

struct TreeDrawing {
  std::array<uint8_t, 3> color = {255, 220, 0};  // of the lines, RGB
  int64_t zoom = 1;                              // pixels of the picture for one of the image
};

// The image (1 or 3 channels) in RGB, enlarged by whole numbers, with the upper and left border of
// each leaf as a line one pixel wide. Throws Error where the tree is of another size.
Image draw_tree(const ImageView& image, const PatchTree& tree, const TreeDrawing& drawing = {});

// Slice z of one channel of a volume, black to white over the range of its values, with the leaves
// that it cuts.
Image draw_tree(const Volume& volume, const PatchTree& tree, int64_t z, int64_t channel = 0,
                const TreeDrawing& drawing = {});

// The upper and left border of each leaf that the plane cuts, as lines one pixel wide in `picture`,
// RGB, which shows the whole plane at any size.
void draw_leaves(const PatchTree& tree, const SlicePlane& plane,
                 const std::array<uint8_t, 3>& color, Image& picture);

}  // namespace fovea::data
