#include <array>
#include <cmath>
#include <string_view>

#include "fovea/data/volume/stored_volume.h"

namespace fovea::data {
namespace {

// Input axis of each canonical axis, and whether it is flipped. As nibabel's io_orientation: the
// axis that is most clearly one direction chooses first.
struct AxisMap {
  std::array<size_t, 3> to = {};  // canonical axis of each input axis
  std::array<bool, 3> is_flipped = {};
};

AxisMap axis_map(const Affine& affine) {
  std::array<std::array<double, 3>, 3> direction = {};  // of each input axis
  for (size_t axis = 0; axis < 3; ++axis) {
    const double length = std::hypot(affine[0][axis], affine[1][axis], affine[2][axis]);
    for (size_t row = 0; row < 3; ++row)
      direction[axis][row] = length > 0 ? affine[row][axis] / length : 0;
  }
  AxisMap map;
  std::array<bool, 3> is_taken = {}, is_done = {};
  for (int round = 0; round < 3; ++round) {
    size_t best_axis = 0, best_row = 0;
    double best = -1;
    for (size_t axis = 0; axis < 3; ++axis) {
      for (size_t row = 0; row < 3; ++row) {
        const double size = std::fabs(direction[axis][row]);
        if (is_done[axis] || is_taken[row] || size <= best) continue;
        best = size;
        best_axis = axis;
        best_row = row;
      }
    }
    is_done[best_axis] = is_taken[best_row] = true;
    map.to[best_axis] = best_row;
    map.is_flipped[best_axis] = direction[best_axis][best_row] < 0;
  }
  return map;
}

}  // namespace

Affine affine_of_spacing(const std::array<double, 3>& spacing) {
  Affine affine = {};
  for (size_t axis = 0; axis < 3; ++axis) affine[axis][axis] = spacing[axis];
  return affine;
}

std::string orientation_of(const Affine& affine) {
  constexpr std::array<std::string_view, 3> kPositive = {"R", "A", "S"},
                                            kNegative = {"L", "P", "I"};
  const AxisMap map = axis_map(affine);
  std::string text;
  for (size_t axis = 0; axis < 3; ++axis)
    text += (map.is_flipped[axis] ? kNegative : kPositive)[map.to[axis]];
  return text;
}

void make_canonical(StoredVolume& stored) {
  const AxisMap map = axis_map(stored.affine);
  const StoredVolume old = stored;
  const std::array<int64_t, 3> sizes = {old.size.depth, old.size.height, old.size.width};
  std::array<int64_t, 3> new_sizes = {};
  for (size_t axis = 0; axis < 3; ++axis) {
    const size_t to = map.to[axis];
    const double sign = map.is_flipped[axis] ? -1 : 1;
    new_sizes[to] = sizes[axis];
    stored.spacing[to] = old.spacing[axis];
    stored.strides[to + 1] = map.is_flipped[axis] ? -old.strides[axis + 1] : old.strides[axis + 1];
    if (map.is_flipped[axis]) stored.first += (sizes[axis] - 1) * old.strides[axis + 1];
    for (size_t row = 0; row < 3; ++row) {
      stored.affine[row][to] = sign * old.affine[row][axis];
      if (map.is_flipped[axis])
        stored.affine[row][3] += static_cast<double>(sizes[axis] - 1) * old.affine[row][axis];
    }
  }
  stored.size = {new_sizes[0], new_sizes[1], new_sizes[2]};
  stored.orientation = orientation_of(stored.affine);
}

}  // namespace fovea::data
