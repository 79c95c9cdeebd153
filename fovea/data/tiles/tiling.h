// Tiles of large images and volumes: where they lie, and cutting them out. The way back is
// tile_blend.h. Sizes and places are [D, H, W]; an image has depth 1.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/config/fields.h"
#include "fovea/data/dataset.h"

namespace fovea::data {

struct TilingConfig {
  std::vector<int64_t> tile_size = {};
  double tile_overlap = 0.0;
  bool use_all_data = false;
  bool pad_small = false;
  bool two_d = false;
  bool upstream_compatible = false;
  std::optional<int64_t> cached_volumes = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("tile_size", self.tile_size, "[height, width], or [depth, height, width]",
            {.unit = "pixels", .required = true});
    v.field("tile_overlap", self.tile_overlap,
            "share of a tile that the next one repeats, along each axis",
            {.min = 0, .max = 1, .exclusive_max = true});
    v.field("use_all_data", self.use_all_data,
            "add tiles that end at the edge, so that what the last whole step leaves is used too");
    v.field("pad_small", self.pad_small,
            "a sample that is smaller than a tile is filled up at the end, with 0 (masks: not "
            "labelled), instead of an error");
    v.field("two_d", self.two_d,
            "cut volumes into slices along their depth; without use_all_data a depth in tile_size "
            "leaves out the slices after its last multiple");
    v.field("upstream_compatible", self.upstream_compatible,
            "counts, places and order of UCF-VIT's tiles, also where its tiles run past the edge");
    v.field("cached_volumes", self.cached_volumes,
            "decoded volumes (or images) that are kept for their other tiles; a shuffled epoch "
            "mixes the tiles of half as many volumes at a time; default: of volumes what fits into "
            "1 GiB, 4 to 64, of images 2",
            {.min = 1, .max = 4096, .unit = "volumes"});
  }
  void validate(ConfigIssues& issues) const;
};

// The tiles along one axis: o = floor(tile * overlap) voxels are shared with the next tile, and
// step = tile - o.
//   Without use_all_data: the tiles of that grid that fit, floor((size - tile) / step) + 1.
//   With it: one more where they leave a rest, moved back to end at the edge,
//            ceil((size - tile) / step) + 1.
// With pad_small an axis shorter than the tile has one, which sticks out at the end.
// UCF-VIT counts (floor(size / tile) - 1) * k + 1, k = floor(tile / o) (1 for o = 0), and with
// use_all_data floor((size / tile - floor(size / tile)) * k) more, and one where o (tile, for
// o = 0) does not divide size. That agrees with the above for no overlap, and for half a tile with
// use_all_data or a multiple of the tile; else it leaves data out or runs past the edge.
struct AxisTiles {
  int64_t size = 0;
  int64_t tile = 0;
  int64_t step = 0;
  int64_t count = 0;
  bool is_clamped = false;  // the last tiles end at the edge

  int64_t start(int64_t index) const;
};

// Throws DataError where the axis is shorter than the tile, unless it is to be padded. UCF-VIT has
// no tile there, or reads voxels from the other end, so with upstream_compatible always.
AxisTiles tile_axis(int64_t size, int64_t tile, const TilingConfig& config);

// A box in a sample. The first `valid` voxels along each axis lie in the sample, the rest is
// padding; valid may be 0 with upstream_compatible only.
struct Tile {
  std::array<int64_t, 3> start = {0, 0, 0};
  VolumeSize size;
  VolumeSize valid;

  bool is_padded() const { return valid != size; }
};

// All tiles of a sample of one size, in a fixed order: the last axis varies fastest, so depth (for
// an image: height) never goes back. With upstream_compatible volumes run the other way, depth
// fastest: its arrays are [x, y, z] = [W, H, D].
class Tiling {
 public:
  // Throws ConfigError: tile_size does not fit the sample's axes; DataError: see tile_axis.
  Tiling(const TilingConfig& config, VolumeSize sample);

  int64_t count() const { return axes_[0].count * axes_[1].count * axes_[2].count; }
  // 0 <= index < count().
  Tile tile(int64_t index) const;
  VolumeSize sample_size() const { return {axes_[0].size, axes_[1].size, axes_[2].size}; }
  VolumeSize tile_size() const { return {axes_[0].tile, axes_[1].tile, axes_[2].tile}; }
  const std::array<AxisTiles, 3>& axes() const { return axes_; }
  // Whether the start along `axis` never falls from one tile to the next.
  bool is_sorted_along(int axis) const;

 private:
  std::array<AxisTiles, 3> axes_;  // D, H, W
  bool is_depth_fastest_ = false;
};

// Copies a tile; `out` gets the tile's size and keeps its buffer. Padding is 0 in images and
// volumes and -1, not labelled, in label maps. A tile of an image has depth 1.
void extract_tile(const Image& image, const Tile& tile, Image& out);
void extract_tile(const Volume& volume, const Tile& tile, Volume& out);
void extract_tile(const LabelMap& labels, const Tile& tile, LabelMap& out);
// The pixels or voxels, the mask where there is one, the label.
void extract_tile(const Sample& sample, const Tile& tile, Sample& out);

}  // namespace fovea::data
