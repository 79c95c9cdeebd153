// What a model says of an input, back on the input's own pixels or voxels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/data/tiles/tile_blend.h"
#include "fovea/data/tiles/tiled.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::inference {

// Whether the transforms change the size by scaling alone, so that a mask can be scaled back.
bool only_scales(const train::Inference& inference);

// values: [1, K, sides of the transformed input] -> [1, K, sides], scaled where the transforms of
// data.val scale. Throws ConfigError where they do more than that to the size.
at::Tensor on_input_pixels(const at::Tensor& values, const std::vector<int64_t>& sides,
                           const train::Inference& inference, const std::string& input);

// Of the tiles of `sample`, in order, predict(tile) -> [K, D, H, W] of a tile, or [K, H, W] of a
// slice; `sink` takes finished slabs of the whole, as TileBlender's.
void blend_sample(const data::TiledDataset& tiles, int64_t sample,
                  const std::function<at::Tensor(int64_t tile)>& predict,
                  const data::TileBlender::Sink& sink);

// Pictures [C, sides of a tile] that `draw` gives of each tile of `sample`, put together: as many,
// each [C, D, H, W].
std::vector<at::Tensor> blend_pictures(
    const data::TiledDataset& tiles, int64_t sample, const train::Inference& inference,
    const std::string& input, const std::function<std::vector<at::Tensor>(int64_t tile)>& draw);

}  // namespace fovea::inference
