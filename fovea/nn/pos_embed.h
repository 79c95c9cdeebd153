// Position embeddings: the fixed sin-cos table and resizing of learned ones.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace fovea::nn {

// The ways in which the model families in use resize a grid of position embeddings. Grids with
// three sides are resized trilinearly, except by kZoom, which is the same formula in any number of
// dims.
enum class PosEmbedInterp {
  kBicubic,   // bicubic with antialias (timm; DINOv2 with registers)
  kBilinear,  // bilinear without antialias (FlexiViT)
  kZoom,      // linear between corner-aligned samples: scipy.ndimage.zoom(order=1) (Flax ViT)
  kDinov2,    // bicubic, scale (new + 0.1) / old, no antialias (DINOv2 without registers)
};

// "bicubic", "bilinear", "zoom" or "dinov2". Throws ConfigError.
PosEmbedInterp pos_embed_interp_from_name(const std::string& name);
std::vector<std::string> pos_embed_interp_names();

// pos_embed: [1, num_prefix + N, D] over old_grid -> [1, num_prefix + M, D] over new_grid, in the
// dtype of pos_embed; the prefix rows are kept. Differentiable. Equal grids: pos_embed itself.
at::Tensor resize_pos_embed(const at::Tensor& pos_embed, at::IntArrayRef old_grid,
                            at::IntArrayRef new_grid, int64_t num_prefix, PosEmbedInterp interp);

// The same for a table whose grid is not known: one of equal sides, else one in the proportions of
// new_grid. Undefined where the rows fit neither.
at::Tensor adapt_pos_embed(const at::Tensor& pos_embed, at::IntArrayRef new_grid,
                           int64_t num_prefix, PosEmbedInterp interp);

// A table of the places along one side, [1, G, D], as one of `places` places: linear between the
// middles of the old ones. In the dtype of the table; differentiable. Equal sizes: the table
// itself.
at::Tensor resize_side_embed(const at::Tensor& table, int64_t places);

// Factorised position embedding (Dehghani et al. 2023, NaViT; timm's pos_embed factorized): rows
// [1, G, D] and columns [1, G', D], each resized to its side of grid = [h, w], and added ->
// [1, h * w, D], row-major.
at::Tensor factorized_pos_embed(const at::Tensor& rows, const at::Tensor& columns,
                                at::IntArrayRef grid);

// Whether a table of `rows` rows begins with rows of prefix tokens: a grid of equal sides is left
// without them, or none is there with them.
bool has_prefix_rows(int64_t rows, int64_t num_prefix, int64_t num_sides);

// Sines and cosines of the token's coordinates: [1, num_prefix + N, dim] float32, prefix rows zero.
// Each side has dim / sides features, [sin | cos] of position / 10000^(2i / features). Sides in the
// order (column, row) for two, as He et al. 2022 (MAE) have it, and as given for three.
// dim must be divisible by twice the number of sides.
at::Tensor sincos_pos_embed(at::IntArrayRef grid, int64_t dim, int64_t num_prefix);

}  // namespace fovea::nn
