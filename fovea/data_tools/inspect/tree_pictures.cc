#include "fovea/data_tools/inspect/tree_pictures.h"

#include <algorithm>

#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/leaf_outlines.h"

namespace fovea::data {
namespace {

void describe_tree(const PatchTree& tree, TreePicture& result) {
  result.leaves = static_cast<int64_t>(tree.leaves.size());
  const auto [smallest, largest] = std::minmax_element(
      tree.leaves.begin(), tree.leaves.end(),
      [](const TreeBox& a, const TreeBox& b) { return a.longest_side() < b.longest_side(); });
  result.smallest = smallest->longest_side();
  result.largest = largest->longest_side();
}

Image show_planes(const Volume& volume, const PatchTree& tree, SliceLayout layout, int64_t side,
                  const GrayWindow& window) {
  const double scale = millimetre_scale(volume, side);
  std::vector<Image> slices;
  for (const SlicePlane& plane : middle_planes(volume.size, layout)) {
    slices.push_back(
        fit_exactly(slice_picture(volume, 0, {}, plane, window), slice_size(volume, plane, scale)));
    outline_leaves(tree, plane, kTreeColor, slices.back());
  }
  return contact_sheet(slices, {.columns = 3, .gap = 2, .background = {0, 0, 0}});
}

}  // namespace

TreePicture tree_picture(const Sample& sample, const AdaptivePatchingConfig& config,
                         SliceLayout layout, int64_t side, bool own_range) {
  TreePicture result;
  PatchSequence sequence;
  PatchingScratch scratch;
  if (sample.is<Image>()) {
    AdaptivePatcher(config).patch(ImageView(sample.image()), nullptr, {}, sequence, scratch);
    result.picture = fit(to_rgb(ImageView(sample.image())), side);
    outline_leaves(sequence.trees[0], {}, kTreeColor, result.picture);
  } else {
    const Volume& volume = sample.volume();
    const auto voxels = static_cast<size_t>(volume.size.voxels());
    result.window = gray_window(std::span(volume.values).first(voxels));
    AdaptivePatchingConfig ranged = config;
    if (own_range && result.window.black < result.window.white) {
      ranged.value_range = {result.window.black, result.window.white};
    }
    AdaptivePatcher(ranged).patch(volume, nullptr, {}, sequence, scratch);
    result.picture = show_planes(volume, sequence.trees[0], layout, side, result.window);
  }
  describe_tree(sequence.trees[0], result);
  return result;
}

}  // namespace fovea::data
