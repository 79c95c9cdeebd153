#include "fovea/data/adaptive/leaf_outlines.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// First and one past the last pixel of the voxels [first, last) of an axis with `count` voxels, in
// a picture where it takes `pixels`.
std::pair<int64_t, int64_t> pixels_of_part(int64_t first, int64_t last, int64_t count,
                                           int64_t pixels, bool is_upwards) {
  if (is_upwards) std::tie(first, last) = std::pair(count - last, count - first);
  return {first * pixels / count, last * pixels / count};
}

}  // namespace

void outline_leaves(const PatchTree& tree, const SlicePlane& plane,
                    const std::array<uint8_t, 3>& color, Image& picture) {
  FOVEA_CHECK(picture.channels == 3, "a picture with {} channels; expected 3", picture.channels);
  const std::array<int64_t, 3> size = {tree.size.depth, tree.size.height, tree.size.width};
  const auto rows = static_cast<size_t>(plane.row_axis());
  const auto columns = static_cast<size_t>(plane.column_axis());
  const auto axis = static_cast<size_t>(plane.axis);
  const auto draw = [&](int64_t y, int64_t x) {
    std::copy_n(color.data(), 3, picture.pixels.data() + 3 * (y * picture.width + x));
  };
  for (const TreeBox& leaf : tree.leaves) {
    const std::array<int64_t, 3> first = {leaf.z, leaf.y, leaf.x};
    const std::array<int64_t, 3> sides = {leaf.depth, leaf.height, leaf.width};
    if (plane.place < first[axis] || plane.place >= first[axis] + sides[axis]) continue;
    const auto [top, bottom] = pixels_of_part(first[rows], first[rows] + sides[rows], size[rows],
                                              picture.height, plane.is_upwards());
    const auto [left, right] = pixels_of_part(first[columns], first[columns] + sides[columns],
                                              size[columns], picture.width, false);
    for (int64_t x = left; x < right; ++x) draw(top, x);
    for (int64_t y = top; y < bottom; ++y) draw(y, left);
  }
}

}  // namespace fovea::data
