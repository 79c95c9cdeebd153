#include "fovea/train/tasks/patch_boxes.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

namespace fovea::train {

at::Tensor boxes_of(std::span<const data::PatchTree> trees, const BoxForm& form) {
  const auto count = static_cast<int64_t>(trees.size()), dims = form.dims;
  auto boxes = at::zeros({count, form.fixed_length, 2, dims}, at::kLong);
  for (int64_t tree = 0; tree < count; ++tree) {
    auto* box = boxes[tree].mutable_data_ptr<int64_t>();
    for (const auto& leaf : trees[static_cast<size_t>(tree)].leaves) {
      const std::array<int64_t, 6> numbers = {leaf.z,     leaf.y,      leaf.x,
                                              leaf.depth, leaf.height, leaf.width};
      for (const int64_t first : {3 - dims, 6 - dims}) {
        box = std::copy_n(numbers.begin() + first, dims, box);
      }
    }
  }
  return boxes.view({count / form.num_trees, form.num_trees, form.fixed_length, 2, dims});
}

}  // namespace fovea::train
