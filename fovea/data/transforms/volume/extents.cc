#include "fovea/data/transforms/volume/extents.h"

#include <algorithm>

namespace fovea::data {
namespace {

// f(wanted, side) at both ends of the range; f must not fall with the side.
template <class F>
ExtentRange map_ends(const std::vector<int64_t>& size, const ExtentRange& in, F&& f) {
  ExtentRange out;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t wanted = of_axis(size, axis);
    out.least[axis] = wanted > 0 ? f(wanted, in.least[axis]) : in.least[axis];
    out.most[axis] = wanted > 0 ? f(wanted, in.most[axis]) : in.most[axis];
  }
  return out;
}

}  // namespace

int64_t of_axis(const std::vector<int64_t>& values, size_t axis) {
  return values.size() == 1 ? values[0] : values[axis];
}

ExtentRange at_most(const std::vector<int64_t>& size, const ExtentRange& in) {
  return map_ends(size, in, [](int64_t wanted, int64_t side) { return std::min(wanted, side); });
}

ExtentRange at_least(const std::vector<int64_t>& size, const ExtentRange& in) {
  return map_ends(size, in, [](int64_t wanted, int64_t side) { return std::max(wanted, side); });
}

ExtentRange exactly(const std::vector<int64_t>& size, const ExtentRange& in) {
  return map_ends(size, in, [](int64_t wanted, int64_t) { return wanted; });
}

VoxelBox center_box(const Extent& volume, const Extent& size) {
  VoxelBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::min(size[axis], volume[axis]);
    box.start[axis] = std::max<int64_t>(volume[axis] / 2 - size[axis] / 2, 0);
  }
  return box;
}

}  // namespace fovea::data
