#include "fovea/data/patching/draw.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

void draw_pixel(const TreeDrawing& drawing, int64_t y, int64_t x, Image& out) {
  std::copy_n(drawing.color.data(), 3, out.pixels.data() + 3 * (y * out.width + x));
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
  for (const Box& leaf : tree.leaves) {
    if (z < leaf.z || z >= leaf.z + leaf.depth) continue;
    for (int64_t i = 0; i < leaf.width * zoom; ++i) {
      draw_pixel(drawing, leaf.y * zoom, leaf.x * zoom + i, out);
    }
    for (int64_t i = 0; i < leaf.height * zoom; ++i) {
      draw_pixel(drawing, leaf.y * zoom + i, leaf.x * zoom, out);
    }
  }
  return out;
}

}  // namespace

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
