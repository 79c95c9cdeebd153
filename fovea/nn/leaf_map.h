// From the tokens of adaptive patches back to a regular grid over the image.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace fovea::nn {

// B batch, L patches, d sides, D width, G cells of a grid row by row, M pairs of a cell and a leaf
// that overlap.

// Which leaves lie on which cell: entries [offsets[i], offsets[i + 1]) are those of cell i of B *
// G.
struct LeafCells {
  std::vector<int64_t> grid;  // cells along each side
  at::Tensor patches;         // [M] int64, the leaf's row among B * L
  at::Tensor shares;          // [M] float32, part of the cell that lies in the leaf
  at::Tensor offsets;         // [B * G] int64
};

// boxes: [B, L, 2, d] int64 on the CPU, first pixel and sides of each leaf in the order of the
// image's sides, all 0 where a patch has none; cell: its sides in pixels. The tensors are on the
// CPU. The shares of a cell sum to 1 where leaves cover it without overlapping. Throws Error where
// a leaf does not lie on the grid.
LeafCells cells_of_leaves(const at::Tensor& boxes, at::IntArrayRef grid, at::IntArrayRef cell);
LeafCells to_device(const LeafCells& cells, at::Device device);

// The mean over the pixels of each cell of the tokens of the leaves that the pixels lie in; zeros
// where there is none. Differentiable by tokens: [B, L, D] -> [B, D, grid]. Sums are in the order
// of the leaves, forward and backward, whatever the number of threads.
at::Tensor tokens_on_cells(const at::Tensor& tokens, const LeafCells& cells);

}  // namespace fovea::nn
