// Where the pixels of a transformed image come from, so that masks follow the image.
#pragma once

#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/affine.h"
#include "fovea/data/volume/volume.h"

namespace fovea::data {

// The transforms of geometry of one sample, put together as they are applied: an affine map from
// places in the result to places in the original. Coordinates are x, y with the centre of the first
// pixel at (0.5, 0.5).
class SampleGeometry {
 public:
  SampleGeometry() { reset({}); }
  // Nothing done yet to an image of this size.
  explicit SampleGeometry(ImageSize size) { reset(size); }
  // The same for an object that is used again: its memory is kept.
  void reset(ImageSize size) { waypoints_.assign(1, Waypoint{kIdentity, size}); }

  // A further transform: `to_input` takes places in its result, of size `out`, to places in what it
  // was given.
  void append(const AffineMatrix& to_input, ImageSize out);
  void append_crop(double left, double top, ImageSize out) { append({1, 0, left, 0, 1, top}, out); }
  // The box [left, left + box width) x [top, top + box height), resized to `out`.
  void append_resize(double left, double top, ImageSize box, ImageSize out);
  void append_horizontal_flip();
  void append_vertical_flip();

  // An image on the way, and the map from places in the result to places in it.
  struct Waypoint {
    AffineMatrix from_result;
    ImageSize size;
  };

  ImageSize in_size() const { return waypoints_.front().size; }
  ImageSize out_size() const { return waypoints_.back().size; }
  const AffineMatrix& to_input() const { return waypoints_.front().from_result; }
  bool is_identity() const { return in_size() == out_size() && to_input() == kIdentity; }
  // The original, every image in between, the result. What one of them cut off stays away, also
  // where a later one is padded.
  const std::vector<Waypoint>& waypoints() const { return waypoints_; }

 private:
  static constexpr AffineMatrix kIdentity = {1, 0, 0, 0, 1, 0};

  std::vector<Waypoint> waypoints_;
};

// The mask of the result, sampled at the nearest place; -1 (not labelled) where the result shows
// something outside of the original (padding, mirrored or not, and filled corners). in: [1, H, W]
// of the original's size; `out` must be another object. Throws DataError: a mask of another size.
void apply_geometry(const SampleGeometry& geometry, const LabelMap& in, LabelMap& out);

}  // namespace fovea::data
