// From adaptive patches back to the image, through the tree that they were cut along.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "fovea/data/adaptive/tree.h"

namespace fovea::train {

// B batch, C channels, L patches, S = p^d values of a patch of side p, d sides, T trees a sample.

// values: [B, C, L, S] float, of the patches along trees[b * T], or with is_tree_of_channel along
// trees[b * T + c] where T is above 1 -> [B, C, sides] float32 on the CPU, without a graph; zeros
// where there is no tree.
at::Tensor images_of_patches(const at::Tensor& values, std::span<const data::PatchTree> trees,
                             at::IntArrayRef sides, bool is_tree_of_channel);

// The mean squared difference of each patch, resized to its leaf, from that part of the image, over
// its pixels and channels: [B, L], differentiable by values. values: [B, C, L, S], images: [B, C,
// sides]; 0 for patches without a leaf. Tree t of T above 1 is that of channel t.
at::Tensor patch_errors_in_image(const at::Tensor& values, const at::Tensor& images,
                                 std::span<const data::PatchTree> trees);

}  // namespace fovea::train
