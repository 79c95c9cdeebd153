// N tokens of a grid of G x G (x G), D embed_dim.
#include "fovea/nn/pos_embed.h"

#include <ATen/ops/_upsample_bicubic2d_aa.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

int64_t product(at::IntArrayRef grid) {
  return std::accumulate(grid.begin(), grid.end(), int64_t{1}, std::multiplies<>());
}

// The grid of equal sides with this many tokens; empty: there is none.
std::vector<int64_t> equal_grid(int64_t tokens, int64_t num_sides) {
  const auto side =
      std::llround(std::pow(static_cast<double>(tokens), 1.0 / static_cast<double>(num_sides)));
  std::vector<int64_t> grid(static_cast<size_t>(num_sides), side);
  return product(grid) == tokens ? grid : std::vector<int64_t>{};
}

// x: [1, D, G, G] -> [1, D, new G, new G].
at::Tensor resize_2d(const at::Tensor& x, at::IntArrayRef grid, PosEmbedInterp interp) {
  switch (interp) {
    case PosEmbedInterp::kBicubic:
      return at::_upsample_bicubic2d_aa(x, grid, /*align_corners=*/false);
    case PosEmbedInterp::kBilinear:
      return at::upsample_bilinear2d(x, grid, /*align_corners=*/false);
    case PosEmbedInterp::kZoom:
      return at::upsample_bilinear2d(x, grid, /*align_corners=*/true);
    case PosEmbedInterp::kDinov2: {
      const auto scale = [&](int64_t side) {
        return (static_cast<double>(grid[side]) + 0.1) / static_cast<double>(x.size(side + 2));
      };
      return at::upsample_bicubic2d(x, grid, /*align_corners=*/false, scale(0), scale(1));
    }
  }
  fail("position embedding interpolation {} is not in the table", static_cast<int>(interp));
}

// x: [1, D, G, G, G] -> [1, D, new G, new G, new G].
at::Tensor resize_3d(const at::Tensor& x, at::IntArrayRef grid, PosEmbedInterp interp) {
  return at::upsample_trilinear3d(x, grid, /*align_corners=*/interp == PosEmbedInterp::kZoom);
}

}  // namespace

PosEmbedInterp pos_embed_interp_from_name(const std::string& name) {
  if (name == "bicubic") return PosEmbedInterp::kBicubic;
  if (name == "bilinear") return PosEmbedInterp::kBilinear;
  if (name == "zoom") return PosEmbedInterp::kZoom;
  if (name == "dinov2") return PosEmbedInterp::kDinov2;
  fail<ConfigError>(
      "position embedding interpolation '{}' is unknown; expected bicubic, bilinear, zoom or "
      "dinov2",
      name);
}

std::vector<std::string> pos_embed_interp_names() {
  return {"bicubic", "bilinear", "zoom", "dinov2"};
}

at::Tensor resize_pos_embed(const at::Tensor& pos_embed, at::IntArrayRef old_grid,
                            at::IntArrayRef new_grid, int64_t num_prefix, PosEmbedInterp interp) {
  FOVEA_CHECK(pos_embed.dim() == 3 && pos_embed.size(1) == num_prefix + product(old_grid) &&
                  old_grid.size() == new_grid.size(),
              "position embedding of {} rows; expected {} prefix rows and {} grid rows",
              pos_embed.dim() == 3 ? pos_embed.size(1) : 0, num_prefix, product(old_grid));
  if (old_grid == new_grid) return pos_embed;
  const auto dim = pos_embed.size(2);
  const auto kind = pos_embed.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<int64_t> shape(old_grid.begin(), old_grid.end());
  shape.insert(shape.begin(), 1);
  shape.push_back(dim);
  auto rows = pos_embed.narrow(1, num_prefix, product(old_grid)).to(kind).reshape(shape);
  rows = rows.movedim(-1, 1).contiguous();  // [1, D, G, G]
  rows =
      old_grid.size() == 2 ? resize_2d(rows, new_grid, interp) : resize_3d(rows, new_grid, interp);
  rows = rows.flatten(2).transpose(1, 2).to(pos_embed.scalar_type());  // [1, N, D]
  return num_prefix > 0 ? at::cat({pos_embed.narrow(1, 0, num_prefix), rows}, 1) : rows;
}

at::Tensor adapt_pos_embed(const at::Tensor& pos_embed, at::IntArrayRef new_grid,
                           int64_t num_prefix, PosEmbedInterp interp) {
  if (pos_embed.dim() != 3 || pos_embed.size(1) <= num_prefix) return {};
  const auto tokens = pos_embed.size(1) - num_prefix;
  auto old_grid = equal_grid(tokens, static_cast<int64_t>(new_grid.size()));
  if (old_grid.empty()) {
    const auto ratio = static_cast<double>(tokens) / static_cast<double>(product(new_grid));
    const auto scale = std::pow(ratio, 1.0 / static_cast<double>(new_grid.size()));
    for (const auto side : new_grid) {
      old_grid.push_back(std::llround(static_cast<double>(side) * scale));
    }
  }
  if (product(old_grid) != tokens) return {};
  return resize_pos_embed(pos_embed, old_grid, new_grid, num_prefix, interp);
}

at::Tensor resize_side_embed(const at::Tensor& table, int64_t places) {
  FOVEA_CHECK(table.dim() == 3 && table.size(0) == 1 && table.size(1) > 0 && places > 0,
              "a table of {} dims for {} places; expected [1, G, D] with at least one place",
              table.dim(), places);
  if (table.size(1) == places) return table;
  const auto kind = table.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto resized = at::upsample_linear1d(table.to(kind).transpose(1, 2).contiguous(), {places},
                                             /*align_corners=*/false);  // [1, D, places]
  return resized.transpose(1, 2).to(table.scalar_type());
}

at::Tensor factorized_pos_embed(const at::Tensor& rows, const at::Tensor& columns,
                                at::IntArrayRef grid) {
  FOVEA_CHECK(grid.size() == 2, "a factorised position embedding of {} sides; expected two",
              grid.size());
  const auto y = resize_side_embed(rows, grid[0]).unsqueeze(2);     // [1, h, 1, D]
  const auto x = resize_side_embed(columns, grid[1]).unsqueeze(1);  // [1, 1, w, D]
  return (y + x).flatten(1, 2);                                     // [1, h * w, D]
}

bool has_prefix_rows(int64_t rows, int64_t num_prefix, int64_t num_sides) {
  if (num_prefix == 0 || rows <= num_prefix) return false;
  return !equal_grid(rows - num_prefix, num_sides).empty() || equal_grid(rows, num_sides).empty();
}

at::Tensor sincos_pos_embed(at::IntArrayRef grid, int64_t dim, int64_t num_prefix) {
  const auto sides = static_cast<int64_t>(grid.size());
  FOVEA_CHECK(dim % (2 * sides) == 0,
              "sin-cos position embedding of width {} for {} sides; expected a width divisible by "
              "{}",
              dim, sides, 2 * sides);
  const auto features = dim / sides;
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const auto bands = at::pow(10000.0, -at::arange(features / 2, options) / (features / 2.0));
  std::vector<at::Tensor> parts;  // one of [N, features] for each side
  for (int64_t part = 0; part < sides; ++part) {
    const auto side = sides == 2 ? 1 - part : part;
    std::vector<int64_t> shape(grid.size(), 1);
    shape[side] = grid[side];
    const auto position =
        at::arange(grid[side], options).view(shape).expand(grid).flatten();  // [N]
    const auto angle = at::outer(position, bands);                           // [N, features / 2]
    parts.push_back(angle.sin());
    parts.push_back(angle.cos());
  }
  const auto table = at::cat(parts, 1);  // [N, D]
  return at::cat({at::zeros({num_prefix, dim}, options), table}, 0).unsqueeze(0).to(at::kFloat);
}

}  // namespace fovea::nn
