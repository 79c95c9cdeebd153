// Pixel by pixel: the plain form of fovea/nn/leaf_map.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fovea::reference {

// tokens: [B, L, D] float64, boxes: [B, L, 2, d] int64, image: its sides, cell: sides of a cell.
// Each pixel gets the token of the leaf that it lies in (zeros: none), then each cell the mean over
// its pixels -> [B, D, image / cell]. Elementary operations only, so autograd through them is a
// reference for gradients.
at::Tensor tokens_on_cells(const at::Tensor& tokens, const at::Tensor& boxes,
                           const std::vector<int64_t>& image, const std::vector<int64_t>& cell);

}  // namespace fovea::reference
