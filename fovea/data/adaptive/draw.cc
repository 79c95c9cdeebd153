#include "fovea/data/adaptive/draw.h"

#include <algorithm>
#include <cmath>
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

Image draw_slice(const ImageView& image, const PatchTree& tree, int64_t z,
                 const TreeDrawing& drawing) {
  FOVEA_CHECK(drawing.zoom > 0 && drawing.zoom <= 64, "zoom={}; expected 1 to 64", drawing.zoom);
  FOVEA_CHECK(image.channels == 1 || image.channels == 3,
              "an image with {} channels; expected 1 or 3", image.channels);
  const int64_t zoom = drawing.zoom;
  Image out;
  reshape(out, {image.height * zoom, image.width * zoom}, 3);
  uint8_t* target = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y) {
    for (int64_t x = 0; x < out.width; ++x) {
      const uint8_t* pixel = image.row(y / zoom) + (x / zoom) * image.channels;
      for (int64_t c = 0; c < 3; ++c) *target++ = pixel[image.channels == 3 ? c : 0];
    }
  }
  draw_leaves(tree, {.axis = 0, .place = z}, drawing.color, out);
  return out;
}

}  // namespace

void draw_leaves(const PatchTree& tree, const SlicePlane& plane,
                 const std::array<uint8_t, 3>& color, Image& picture) {
  FOVEA_CHECK(picture.channels == 3, "a picture with {} channels; expected 3", picture.channels);
  const std::array<int64_t, 3> size = {tree.size.depth, tree.size.height, tree.size.width};
  const auto rows = static_cast<size_t>(plane.row_axis());
  const auto columns = static_cast<size_t>(plane.column_axis());
  const auto axis = static_cast<size_t>(plane.axis);
  const auto draw = [&](int64_t y, int64_t x) {
    std::copy_n(color.data(), 3, picture.pixels.data() + 3 * (y * picture.width + x));
  };
  for (const Box& leaf : tree.leaves) {
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

Image draw_tree(const ImageView& image, const PatchTree& tree, const TreeDrawing& drawing) {
  FOVEA_CHECK((tree.size == VolumeSize{1, image.height, image.width}),
              "a tree over {}x{}x{} on an image of {}x{}", tree.size.depth, tree.size.height,
              tree.size.width, image.height, image.width);
  return draw_slice(image, tree, 0, drawing);
}

Image draw_tree(const Volume& volume, const PatchTree& tree, int64_t z, int64_t channel,
                const TreeDrawing& drawing) {
  FOVEA_CHECK(tree.size == volume.size && z >= 0 && z < volume.size.depth && channel >= 0 &&
                  channel < volume.channels,
              "slice {} of channel {} of a volume of {}x{}x{}x{}", z, channel, volume.channels,
              volume.size.depth, volume.size.height, volume.size.width);
  const int64_t voxels = volume.size.voxels();
  const float* values = volume.values.data() + channel * voxels;
  const auto [least, most] = std::minmax_element(values, values + voxels);
  const float scale = *most > *least ? 255.0f / (*most - *least) : 0.0f;
  Image slice;
  reshape(slice, {volume.size.height, volume.size.width}, 1);
  const float* in = values + z * volume.size.height * volume.size.width;
  for (size_t i = 0; i < slice.pixels.size(); ++i) {
    const float level = (in[i] - *least) * scale;
    slice.pixels[i] = static_cast<uint8_t>(level > 0 ? std::min(level, 255.0f) : 0.0f);
  }
  return draw_slice(ImageView(slice), tree, z, drawing);
}

}  // namespace fovea::data
