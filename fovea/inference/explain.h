// What a vision transformer looks at: attention maps, and attention rollout through all blocks
// (Abnar and Zuidema, "Quantifying Attention Flow in Transformers", 2020), as pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::inference {

// B batch, H heads, N tokens (prefix tokens, then patches row by row), G patches along a side.

// How tokens stand for places, and which of them the prediction is made from.
struct TokenLayout {
  std::vector<int64_t> grid;      // [G, G], or [G, G, G] for volumes
  int64_t num_prefix = 0;         // class token and registers, in front of the patches
  bool uses_class_token = false;  // the prediction is made from token 0; else from all patches
  // Attention pooling: its probabilities [B, H, 1, M], with M the patches, or all N tokens.
  at::Tensor pool_probabilities = {};
  // Which patches stand for something: [B, patches] bool; undefined: all do. The others are not
  // among those that the prediction is made from.
  at::Tensor real_patches = {};
  // Patches that lie on no grid: one value for each of them, [G...], back on the sides of the
  // image. Empty: the grid is spread over the image.
  std::function<at::Tensor(const at::Tensor& map)> to_image = {};
};

// What share of the prediction's attention goes to each patch. probabilities: [B, H, N, N] of one
// block -> [B, H, G...]. Seen from the class token, from the patches that attention pooling
// weighs, or from the mean of all patches.
at::Tensor attention_maps(const at::Tensor& probabilities, const TokenLayout& layout);

// Attention through all blocks: heads averaged, the residual path added as an identity of equal
// weight, rows normalised, blocks multiplied. One [B, H, N, N] a block, first block first -> [B, N,
// N].
at::Tensor attention_rollout(const std::vector<at::Tensor>& probabilities);

// The rollout seen from the prediction. rollout: [B, N, N] -> [B, G...].
at::Tensor rollout_map(const at::Tensor& rollout, const TokenLayout& layout);

// A perceptually even colour map from black over purple and orange to pale yellow: lightness grows
// evenly in OKLab. values: [...] in [0, 1] -> [3, ...].
at::Tensor color_map(const at::Tensor& values);

// The map over a picture: scaled from its smallest to its largest value, enlarged bilinearly,
// coloured, and blended over the picture in grey. image: [C, H, W] in [0, 1], map: [G, G] ->
// [3, H, W].
at::Tensor overlay(const at::Tensor& image, const at::Tensor& map);

// Pictures of one size in rows of `columns`, two pixels apart. [3, H, W] each.
at::Tensor picture_grid(const std::vector<at::Tensor>& pictures, int64_t columns);

// [3, H, W] in [0, 1] -> bytes.
data::Image to_image(const at::Tensor& picture);

struct ExplainPictures {
  at::Tensor rollout;  // the input beside the rollout over it
  at::Tensor blocks;   // the mean map of each block, first block first
  at::Tensor heads;    // the map of each head of the last block
};

// image: [C, H, W] or [C, D, H, W] in [0, 1]; probabilities: one [1, H, N, N] a block. Volumes are
// shown by their three middle slices. Patches of unequal size are coloured by the attention that
// goes to them as a whole. Pictures under `min_side` pixels are enlarged by whole
// factors. Throws Error where shapes do not fit each other.
ExplainPictures explain(const at::Tensor& image, const std::vector<at::Tensor>& probabilities,
                        const TokenLayout& layout, int64_t min_side = 224);

}  // namespace fovea::inference
