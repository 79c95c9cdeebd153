// From patches back into the image, in memory: what tests compare with.
#pragma once

#include <span>

#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/axis_weights.h"

namespace fovea::data::testing {

// Every channel's tokens of the sequence, resampled to their leaves.
inline Volume volume_of_tokens(const PatchSequence& sequence, bool upstream_compatible = false) {
  const VolumeSize size = sequence.trees.at(0).size;
  Volume out = {sequence.channels, size, {1, 1, 1}, {}};
  out.values.resize(static_cast<size_t>(out.channels * size.voxels()));
  const auto plane = static_cast<size_t>(sequence.fixed_length * sequence.token_size());
  ResampleScratch scratch;
  for (size_t c = 0; c < static_cast<size_t>(out.channels); ++c) {
    tokens_to_volume(std::span(sequence.tokens).subspan(c * plane, plane),
                     sequence.trees[sequence.trees.size() == 1 ? 0 : c], sequence.patch_size,
                     resample_rules(sequence.dims == 3, upstream_compatible),
                     out.values.data() + c * static_cast<size_t>(size.voxels()), scratch);
  }
  return out;
}

// Of each voxel the class of its leaf's patch, [L, p^d], that lies nearest.
inline LabelMap labels_of_tokens(std::span<const int32_t> tokens, const PatchTree& tree,
                                 int64_t p) {
  LabelMap labels = {tree.size, std::vector<int32_t>(static_cast<size_t>(tree.size.voxels()))};
  const int64_t depth = tree.is_volume ? p : 1;
  const auto place = [](int64_t i, int64_t in, int64_t out) {
    return patching::nearest(i, in, out, patching::kLabelRule);
  };
  for (const TreeBox& leaf : tree.leaves) {
    for (int64_t i = 0; i < leaf.voxels(); ++i) {
      const int64_t x = i % leaf.width, y = i / leaf.width % leaf.height,
                    z = i / leaf.width / leaf.height;
      const int64_t from = (place(z, depth, leaf.depth) * p + place(y, p, leaf.height)) * p +
                           place(x, p, leaf.width);
      const int64_t to =
          ((leaf.z + z) * tree.size.height + leaf.y + y) * tree.size.width + leaf.x + x;
      labels.classes[static_cast<size_t>(to)] = tokens[static_cast<size_t>(from)];
    }
    tokens = tokens.subspan(static_cast<size_t>(depth * p * p));
  }
  return labels;
}

}  // namespace fovea::data::testing
