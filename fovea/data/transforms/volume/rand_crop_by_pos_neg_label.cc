#include "fovea/data/transforms/volume/rand_crop_by_pos_neg_label.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_moves.h"

namespace fovea::data {
namespace {

// What a voxel can be drawn as.
struct Labels {
  const VolumeItem& item;
  bool has_threshold;
  float threshold;

  bool is_bright(int64_t z, int64_t y, int64_t x) const {
    for (int64_t c = 0; c < item.values.channels; ++c) {
      if (item.values.row(c, z, y)[x * item.values.steps[2]] > threshold) return true;
    }
    return false;
  }
  bool is_background(int64_t z, int64_t y, int64_t x) const {
    if (item.classes.row(0, z, y)[x * item.classes.steps[2]] != 0) return false;
    return !has_threshold || is_bright(z, y, x);
  }
  bool is_foreground(int64_t z, int64_t y, int64_t x) const {
    return item.classes.row(0, z, y)[x * item.classes.steps[2]] > 0;
  }
};

Labels labels_of(const VolumeItem& item, const RandCropByPosNegLabelConfig& config) {
  return {item, config.image_threshold.has_value(),
          static_cast<float>(config.image_threshold.value_or(0))};
}

FOVEA_SIMD int64_t count_above_zero(const int32_t* row, int64_t count) {
  int32_t found = 0;
#pragma omp simd reduction(+ : found)
  for (int64_t x = 0; x < count; ++x) found += row[x] > 0 ? 1 : 0;
  return found;
}

FOVEA_SIMD int64_t count_zero(const int32_t* row, int64_t count) {
  int32_t found = 0;
#pragma omp simd reduction(+ : found)
  for (int64_t x = 0; x < count; ++x) found += row[x] == 0 ? 1 : 0;
  return found;
}

// Foreground and background of a row.
LabelCounts count_row(const Labels& labels, int64_t z, int64_t y) {
  const auto& classes = labels.item.classes;
  const int64_t width = classes.size[2];
  if (classes.steps[2] == 1 && !labels.has_threshold) {
    const int32_t* row = classes.row(0, z, y);
    return {count_above_zero(row, width), count_zero(row, width)};
  }
  LabelCounts counts;
  for (int64_t x = 0; x < width; ++x) {
    counts.foreground += labels.is_foreground(z, y, x) ? 1 : 0;
    counts.background += labels.is_background(z, y, x) ? 1 : 0;
  }
  return counts;
}

}  // namespace

LabelCounts count_labels(const VolumeItem& item, const RandCropByPosNegLabelConfig& config,
                         VolumeScratch& scratch) {
  const Labels labels = labels_of(item, config);
  const int64_t depth = item.classes.size[0];
  int64_t* by_plane = VolumeScratch::grown(scratch.counts, 2 * depth);
  LabelCounts total;
  for (int64_t z = 0; z < depth; ++z) {
    LabelCounts plane;
    for (int64_t y = 0; y < item.classes.size[1]; ++y) {
      const LabelCounts row = count_row(labels, z, y);
      plane.foreground += row.foreground;
      plane.background += row.background;
    }
    by_plane[2 * z] = plane.foreground;
    by_plane[2 * z + 1] = plane.background;
    total.foreground += plane.foreground;
    total.background += plane.background;
  }
  return total;
}

Extent find_label(const VolumeItem& item, const RandCropByPosNegLabelConfig& config,
                  bool is_foreground, int64_t k, const VolumeScratch& scratch) {
  const Labels labels = labels_of(item, config);
  const size_t kind = is_foreground ? 0 : 1;
  int64_t z = 0;
  for (; k >= scratch.counts[2 * z + kind]; ++z) k -= scratch.counts[2 * z + kind];
  for (int64_t y = 0; y < item.classes.size[1]; ++y) {
    const LabelCounts row = count_row(labels, z, y);
    const int64_t in_row = is_foreground ? row.foreground : row.background;
    if (k >= in_row) {
      k -= in_row;
      continue;
    }
    for (int64_t x = 0; x < item.classes.size[2]; ++x) {
      const bool counts =
          is_foreground ? labels.is_foreground(z, y, x) : labels.is_background(z, y, x);
      if (counts && k-- == 0) return {z, y, x};
    }
  }
  fail("find_label: the counts are of another mask");
}

VoxelBox box_around(const Extent& center, const Extent& size, const Extent& volume) {
  VoxelBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::min(size[axis], volume[axis]);
    box.start[axis] =
        std::clamp<int64_t>(center[axis] - box.size[axis] / 2, 0, volume[axis] - box.size[axis]);
  }
  return box;
}

VoxelBox draw_pos_neg_crop(const RandCropByPosNegLabelConfig& config, const VolumeItem& item,
                           RandomStream& random, VolumeScratch& scratch) {
  if (!item.has_mask()) {
    fail<DataError>(
        "rand_crop_by_pos_neg_label needs a mask, and the sample has none; use "
        "rand_spatial_crop");
  }
  const Extent& volume = item.values.size;
  const Extent size = size_or(config.spatial_size, volume);
  for (size_t axis = 0; axis < 3; ++axis) {
    if (size[axis] <= volume[axis] || config.allow_smaller) continue;
    fail<DataError>(
        "rand_crop_by_pos_neg_label: {} voxels along axis {}, but the volume has {}; pad before "
        "with spatial_pad, crop less, or set allow_smaller",
        size[axis], axis, volume[axis]);
  }
  const LabelCounts counts = count_labels(item, config, scratch);
  if (counts.foreground + counts.background == 0) {
    fail<DataError>("rand_crop_by_pos_neg_label: no voxel of class 0 or above to draw around");
  }
  const double ratio = counts.foreground == 0   ? 0.0
                       : counts.background == 0 ? 1.0
                                                : config.pos / (config.pos + config.neg);
  const bool is_foreground = random.bernoulli(ratio);
  const int64_t k =
      random.below(static_cast<uint32_t>(is_foreground ? counts.foreground : counts.background));
  return box_around(find_label(item, config, is_foreground, k, scratch), size, volume);
}

void RandCropByPosNegLabelConfig::validate(ConfigIssues& issues) const {
  check_size("spatial_size", spatial_size, issues);
  if (!(pos + neg > 0)) {
    issues.add("pos", {"neg"},
               fmt::format("{}, and neg {}; expected one of the two above 0", pos, neg));
  }
}

ExtentRange RandCropByPosNegLabelConfig::output_range(const ExtentRange& in) const {
  // Without allow_smaller a smaller volume is an error, so what comes out has the full size.
  return allow_smaller ? at_most(spatial_size, in) : exactly(spatial_size, in);
}

void RandCropByPosNegLabelConfig::apply(VolumeItem& item, RandomStream& random,
                                        VolumeScratch& scratch) const {
  const VoxelBox box = draw_pos_neg_crop(*this, item, random, scratch);
  crop(item, box.start, box.size);
}

}  // namespace fovea::data
