#include "fovea/data/adaptive/region_picture.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/draw.h"

namespace fovea::data {
namespace {

// Means over the parts of the image that the pixels of a picture stand for.
class Averages {
 public:
  Averages(const RegionFormat& format, ImageSize size)
      : format_(format),
        size_(size),
        channels_(format.channels == 3 ? 3 : 1),
        sums_(static_cast<size_t>(size.height * size.width * channels_)),
        counts_(static_cast<size_t>(size.height * size.width)) {}

  // values [W, C].
  void add_row(int64_t y, const float* values) {
    const int64_t row = y * size_.height / format_.size.height * size_.width;
    for (int64_t x = 0; x < format_.size.width; ++x, values += format_.channels) {
      const auto at = static_cast<size_t>(row + x * size_.width / format_.size.width);
      ++counts_[at];
      for (size_t c = 0; c < static_cast<size_t>(channels_); ++c) {
        sums_[at * static_cast<size_t>(channels_) + c] += static_cast<double>(values[c]);
      }
    }
  }

  Image picture() {
    const auto channels = static_cast<size_t>(channels_);
    for (size_t i = 0; i < sums_.size(); ++i) {
      sums_[i] /= static_cast<double>(counts_[i / channels]);
    }
    double black = 0;
    double white = 255;
    if (format_.type != ScalarType::kUint8) {
      const auto [least, most] = std::minmax_element(sums_.begin(), sums_.end());
      black = *least;
      white = *most;
    }
    const double scale = white > black ? 255 / (white - black) : 0;
    Image image;
    reshape(image, size_, channels_);
    for (size_t i = 0; i < sums_.size(); ++i) {
      image.pixels[i] =
          static_cast<uint8_t>(std::clamp((sums_[i] - black) * scale + 0.5, 0.0, 255.0));
    }
    return image;
  }

 private:
  RegionFormat format_;
  ImageSize size_;
  int64_t channels_;
  std::vector<double> sums_;     // [H, W, channels_]
  std::vector<int64_t> counts_;  // [H, W]
};

// Leaves where they lie in the picture; those below a pixel are left out.
PatchTree shrunk_tree(const PatchTree& tree, ImageSize size) {
  const auto place = [](int64_t at, int64_t to, int64_t from) {
    return static_cast<int32_t>(at * to / from);
  };
  PatchTree small;
  small.size = {1, size.height, size.width};
  for (const Box& leaf : tree.leaves) {
    Box box = leaf;
    box.y = place(leaf.y, size.height, tree.size.height);
    box.x = place(leaf.x, size.width, tree.size.width);
    box.height = place(leaf.y + leaf.height, size.height, tree.size.height) - box.y;
    box.width = place(leaf.x + leaf.width, size.width, tree.size.width) - box.x;
    if (box.height > 0 && box.width > 0) small.leaves.push_back(box);
  }
  return small;
}

}  // namespace

std::vector<Image> draw_large_trees(const RegionSource& image, std::span<const PatchTree> trees,
                                    int64_t side, int64_t band_bytes) {
  FOVEA_CHECK(side > 0, "a picture with sides of {}; expected at least 1", side);
  const RegionFormat& format = image.format();
  const auto& [height, width] = format.size;
  const int64_t longest = std::max(height, width);
  ImageSize size = format.size;
  if (longest > side) {
    size = {std::max<int64_t>(height * side / longest, 1),
            std::max<int64_t>(width * side / longest, 1)};
  }
  Averages averages(format, size);
  RegionRows rows(image, band_bytes);
  std::vector<float> values(static_cast<size_t>(width * format.channels));
  for (int64_t y = 0; y < height; ++y) {
    row_to_floats(image, y, rows.row(y), values.data());
    averages.add_row(y, values.data());
  }
  const Image picture = averages.picture();
  std::vector<Image> pictures;
  for (const PatchTree& tree : trees) {
    pictures.push_back(draw_tree(ImageView(picture), shrunk_tree(tree, size)));
  }
  return pictures;
}

}  // namespace fovea::data
