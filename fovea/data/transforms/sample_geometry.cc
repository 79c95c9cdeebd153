#include "fovea/data/transforms/sample_geometry.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::data {

namespace {

// First `next`, then `m`.
AffineMatrix compose(const AffineMatrix& m, const AffineMatrix& next) {
  return {m[0] * next[0] + m[1] * next[3],        m[0] * next[1] + m[1] * next[4],
          m[0] * next[2] + m[1] * next[5] + m[2], m[3] * next[0] + m[4] * next[3],
          m[3] * next[1] + m[4] * next[4],        m[3] * next[2] + m[4] * next[5] + m[5]};
}

struct Place {
  double x = 0, y = 0;

  bool is_inside(ImageSize size) const {
    return x >= 0 && x < static_cast<double>(size.width) && y >= 0 &&
           y < static_cast<double>(size.height);
  }
};

Place map(const AffineMatrix& m, Place at) {
  return {m[0] * at.x + m[1] * at.y + m[2], m[3] * at.x + m[4] * at.y + m[5]};
}

}  // namespace

void SampleGeometry::append(const AffineMatrix& to_input, ImageSize out) {
  for (Waypoint& waypoint : waypoints_)
    waypoint.from_result = compose(waypoint.from_result, to_input);
  waypoints_.push_back({kIdentity, out});
}

void SampleGeometry::append_resize(double left, double top, ImageSize box, ImageSize out) {
  append({static_cast<double>(box.width) / static_cast<double>(out.width), 0, left, 0,
          static_cast<double>(box.height) / static_cast<double>(out.height), top},
         out);
}

void SampleGeometry::append_horizontal_flip() {
  append({-1, 0, static_cast<double>(out_size().width), 0, 1, 0}, out_size());
}

void SampleGeometry::append_vertical_flip() {
  append({1, 0, 0, 0, -1, static_cast<double>(out_size().height)}, out_size());
}

void apply_geometry(const SampleGeometry& geometry, const LabelMap& in, LabelMap& out) {
  const ImageSize size = geometry.in_size();
  if (in.size != VolumeSize{1, size.height, size.width}) {
    fail<DataError>("a mask of {}x{}x{} for an image of {}x{} pixels; they must be equal",
                    in.size.depth, in.size.height, in.size.width, size.height, size.width);
  }
  out.size = {1, geometry.out_size().height, geometry.out_size().width};
  out.classes.resize(static_cast<size_t>(out.size.voxels()));
  int32_t* target = out.classes.data();
  for (int64_t y = 0; y < out.size.height; ++y) {
    for (int64_t x = 0; x < out.size.width; ++x) {
      const Place here = {static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5};
      const bool is_inside = std::all_of(
          geometry.waypoints().begin(), geometry.waypoints().end(), [&](const auto& waypoint) {
            return map(waypoint.from_result, here).is_inside(waypoint.size);
          });
      const Place from = map(geometry.to_input(), here);
      *target++ =
          is_inside
              ? in.classes[static_cast<int64_t>(from.y) * size.width + static_cast<int64_t>(from.x)]
              : -1;
    }
  }
}

}  // namespace fovea::data
