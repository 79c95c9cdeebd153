#include "fovea/data/tiles/tiling.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

// Note [UCF-VIT's count]: see AxisTiles. Its quotient is a double, and so is ours: the rest of the
// floor depends on the rounding.
int64_t upstream_count(int64_t size, int64_t tile, int64_t overlap, bool use_all_data) {
  const int64_t per_tile = overlap == 0 ? 1 : tile / overlap;
  const int64_t whole = size / tile;
  int64_t count = (whole - 1) * per_tile + 1;
  if (use_all_data) {
    const double rest =
        static_cast<double>(size) / static_cast<double>(tile) - static_cast<double>(whole);
    count += static_cast<int64_t>(std::floor(rest * static_cast<double>(per_tile)));
    if (size % (overlap == 0 ? tile : overlap) != 0) ++count;
  }
  return count;
}

int64_t right_count(int64_t size, int64_t tile, int64_t step, bool use_all_data) {
  const int64_t rest = std::max<int64_t>(size - tile, 0);
  return rest / step + 1 + (use_all_data && rest % step != 0 ? 1 : 0);
}

AxisTiles slices(int64_t depth, const TilingConfig& config) {
  AxisTiles axis{.size = depth, .tile = 1, .step = 1, .count = depth};
  if (config.use_all_data || config.tile_size.size() < 3) return axis;
  const int64_t block = config.tile_size[0];
  if (config.upstream_compatible || depth >= block) axis.count = depth / block * block;
  return axis;
}

// Copies rows of `row_values` values between two boxes of rows [D, H]; strides in values.
template <class T>
struct Rows {
  T* first;
  int64_t plane_stride;
  int64_t row_stride;
};

template <class T>
void copy_rows(const Tile& tile, int64_t values_per_voxel, Rows<const T> in, Rows<T> out) {
  const int64_t count = tile.valid.width * values_per_voxel;
  for (int64_t d = 0; d < tile.valid.depth; ++d) {
    for (int64_t h = 0; h < tile.valid.height; ++h) {
      const T* source = in.first + (tile.start[0] + d) * in.plane_stride +
                        (tile.start[1] + h) * in.row_stride + tile.start[2] * values_per_voxel;
      std::copy_n(source, count, out.first + d * out.plane_stride + h * out.row_stride);
    }
  }
}

// One channel, or one label map: [D, H, W] to [d, h, w].
template <class T>
void copy_box(const Tile& tile, VolumeSize size, const T* in, T* out) {
  copy_rows<T>(tile, 1, {in, size.height * size.width, size.width},
               {out, tile.size.height * tile.size.width, tile.size.width});
}

template <class T>
void prepare(std::vector<T>& values, int64_t count, const Tile& tile, T padding) {
  values.resize(static_cast<size_t>(count));
  if (tile.is_padded()) std::fill(values.begin(), values.end(), padding);
}

}  // namespace

void TilingConfig::validate(ConfigIssues& issues) const {
  if (tile_size.size() != 2 && tile_size.size() != 3) {
    issues.add("tile_size", fmt::format("{} numbers; expected [height, width] or [depth, height, "
                                        "width]",
                                        tile_size.size()));
  }
  if (std::any_of(tile_size.begin(), tile_size.end(), [](int64_t side) { return side < 1; })) {
    issues.add("tile_size", "a side below 1; expected lengths in pixels or voxels");
  }
}

int64_t AxisTiles::start(int64_t index) const {
  const int64_t start = index * step;
  return is_clamped && start + tile > size ? std::max<int64_t>(size - tile, 0) : start;
}

AxisTiles tile_axis(int64_t size, int64_t tile, const TilingConfig& config) {
  FOVEA_CHECK(size > 0 && tile > 0, "an axis of {} in tiles of {}; expected numbers above 0", size,
              tile);
  FOVEA_CHECK(config.tile_overlap >= 0 && config.tile_overlap < 1,
              "tile_overlap={}; expected at least 0 and below 1", config.tile_overlap);
  const auto overlap = static_cast<int64_t>(static_cast<double>(tile) * config.tile_overlap);
  AxisTiles axis{.size = size, .tile = tile, .step = tile - overlap};
  axis.is_clamped = config.use_all_data;
  if (size < tile && (config.upstream_compatible || !config.pad_small)) {
    fail<DataError>(
        "an axis of {} is shorter than the tile's {}; take a smaller tile_size, or {}", size, tile,
        config.upstream_compatible
            ? "upstream_compatible: false and pad_small: true (UCF-VIT has no valid tile)"
            : "pad_small: true, which fills the sample up");
  }
  if (!config.upstream_compatible) {
    axis.count = right_count(size, tile, axis.step, config.use_all_data);
    return axis;
  }
  axis.count = upstream_count(size, tile, overlap, config.use_all_data);
  return axis;
}

Tiling::Tiling(const TilingConfig& config, VolumeSize sample) {
  const auto& sides = config.tile_size;
  FOVEA_CHECK(sides.size() == 2 || sides.size() == 3,
              "tile_size has {} numbers; expected [height, width] or [depth, height, width]",
              sides.size());
  if (sides.size() == 2 && sample.depth > 1 && !config.two_d) {
    fail<ConfigError>(
        "tile_size has 2 numbers, but the sample is a volume of depth {}; give [depth, height, "
        "width], or two_d: true for slices",
        sample.depth);
  }
  const size_t height = sides.size() - 2;
  axes_[1] = tile_axis(sample.height, sides[height], config);
  axes_[2] = tile_axis(sample.width, sides[height + 1], config);
  if (config.two_d || sides.size() == 2) {
    axes_[0] = slices(sample.depth, config);
  } else {
    axes_[0] = tile_axis(sample.depth, sides[0], config);
  }
  is_depth_fastest_ = config.upstream_compatible && sides.size() == 3;
}

Tile Tiling::tile(int64_t index) const {
  FOVEA_CHECK(index >= 0 && index < count(), "tile {} of {}", index, count());
  std::array<int64_t, 3> order = {2, 1, 0};  // axes, the fastest first
  if (is_depth_fastest_) order = {0, 1, 2};
  Tile tile;
  for (const int64_t axis : order) {
    tile.start[axis] = axes_[axis].start(index % axes_[axis].count);
    index /= axes_[axis].count;
  }
  const auto valid = [&](int axis) {
    return std::clamp<int64_t>(axes_[axis].size - tile.start[axis], 0, axes_[axis].tile);
  };
  tile.size = tile_size();
  tile.valid = {valid(0), valid(1), valid(2)};
  return tile;
}

bool Tiling::is_sorted_along(int axis) const {
  const int slowest = is_depth_fastest_ ? 2 : 0;
  if (axis == slowest) return true;
  if (axis != 1) return axes_[slowest].count == 1 && axes_[1].count == 1;
  return axes_[slowest].count == 1;
}

void extract_tile(const Image& image, const Tile& tile, Image& out) {
  FOVEA_CHECK(tile.size.depth == 1, "a tile of depth {} of an image; expected depth 1",
              tile.size.depth);
  out.height = tile.size.height;
  out.width = tile.size.width;
  out.channels = image.channels;
  prepare(out.pixels, tile.size.voxels() * image.channels, tile, uint8_t{0});
  copy_rows<uint8_t>(tile, image.channels, {image.pixels.data(), 0, image.width * image.channels},
                     {out.pixels.data(), 0, out.width * out.channels});
}

void extract_tile(const Volume& volume, const Tile& tile, Volume& out) {
  out.channels = volume.channels;
  out.size = tile.size;
  out.spacing = volume.spacing;
  prepare(out.values, volume.channels * tile.size.voxels(), tile, 0.0f);
  for (int64_t c = 0; c < volume.channels; ++c) {
    copy_box(tile, volume.size, volume.values.data() + c * volume.size.voxels(),
             out.values.data() + c * tile.size.voxels());
  }
}

void extract_tile(const LabelMap& labels, const Tile& tile, LabelMap& out) {
  out.size = tile.size;
  prepare(out.classes, tile.size.voxels(), tile, int32_t{-1});
  copy_box(tile, labels.size, labels.classes.data(), out.classes.data());
}

void extract_tile(const Sample& sample, const Tile& tile, Sample& out) {
  if (sample.is<Image>()) {
    extract_tile(sample.image(), tile, out.become<Image>());
  } else {
    extract_tile(sample.volume(), tile, out.become<Volume>());
  }
  out.label = sample.label;
  if (sample.mask.classes.empty()) {
    out.mask.size = {};
    out.mask.classes.clear();
  } else {
    extract_tile(sample.mask, tile, out.mask);
  }
}

}  // namespace fovea::data
