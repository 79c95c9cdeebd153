#include "fovea/data/adaptive/region_picture.h"

#include "fovea/data/adaptive/draw.h"
#include "fovea/data/large_image/shrunk_image.h"

namespace fovea::data {
namespace {

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
  const ImageSize size = shrunk_size(image.format().size, side);
  const Image picture = shrunk_image(image, size, band_bytes);
  std::vector<Image> pictures;
  for (const PatchTree& tree : trees) {
    pictures.push_back(draw_tree(ImageView(picture), shrunk_tree(tree, size)));
  }
  return pictures;
}

}  // namespace fovea::data
