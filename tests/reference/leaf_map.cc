#include "tests/reference/leaf_map.h"

#include <ATen/ATen.h>

namespace fovea::reference {
namespace {

// Whether the pixel lies in the leaf. box: [2, d]
bool is_in(const at::Tensor& box, const std::vector<int64_t>& pixel) {
  for (size_t axis = 0; axis < pixel.size(); ++axis) {
    const auto start = box[0][static_cast<int64_t>(axis)].item<int64_t>();
    const auto side = box[1][static_cast<int64_t>(axis)].item<int64_t>();
    if (pixel[axis] < start || pixel[axis] >= start + side) return false;
  }
  return true;
}

std::vector<int64_t> pixel_at(int64_t index, const std::vector<int64_t>& image) {
  std::vector<int64_t> pixel(image.size());
  for (size_t axis = image.size(); axis-- > 0;) {
    pixel[axis] = index % image[axis];
    index /= image[axis];
  }
  return pixel;
}

}  // namespace

at::Tensor tokens_on_cells(const at::Tensor& tokens, const at::Tensor& boxes,
                           const std::vector<int64_t>& image, const std::vector<int64_t>& cell) {
  int64_t pixels = 1;
  for (const auto side : image) pixels *= side;
  std::vector<at::Tensor> samples;
  for (int64_t b = 0; b < tokens.size(0); ++b) {
    std::vector<at::Tensor> painted;
    for (int64_t i = 0; i < pixels; ++i) {
      auto value = at::zeros({tokens.size(2)}, tokens.options());
      for (int64_t leaf = 0; leaf < tokens.size(1); ++leaf) {
        if (is_in(boxes[b][leaf], pixel_at(i, image))) value = value + tokens[b][leaf];
      }
      painted.push_back(value);
    }
    auto map = at::stack(painted, 1);  // [D, pixels]
    std::vector<int64_t> split = {tokens.size(2)}, means;
    for (size_t axis = 0; axis < image.size(); ++axis) {
      split.push_back(image[axis] / cell[axis]);
      split.push_back(cell[axis]);
      means.push_back(static_cast<int64_t>(2 * axis) + 2);
    }
    samples.push_back(map.reshape(split).mean(means));
  }
  return at::stack(samples);
}

}  // namespace fovea::reference
