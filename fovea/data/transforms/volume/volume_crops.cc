#include "fovea/data/transforms/volume/volume_crops.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

int64_t draw_below(int64_t count, RandomStream& random) {
  return random.below(static_cast<uint32_t>(count));
}

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

FOVEA_SIMD bool has_above(const float* row, int64_t count, float threshold) {
  int32_t found = 0;
#pragma omp simd reduction(| : found)
  for (int64_t x = 0; x < count; ++x) found |= row[x] > threshold ? 1 : 0;
  return found != 0;
}

// First and last place along each axis of a voxel above the threshold.
struct Bounds {
  Extent least = {ExtentRange::kUnbounded, ExtentRange::kUnbounded, ExtentRange::kUnbounded};
  Extent largest = {-1, -1, -1};
  void add(int64_t z, int64_t y, int64_t x_first, int64_t x_last) {
    least = {std::min(least[0], z), std::min(least[1], y), std::min(least[2], x_first)};
    largest = {std::max(largest[0], z), std::max(largest[1], y), std::max(largest[2], x_last)};
  }
};

void add_channel(const FieldView<float>& values, int64_t channel, float threshold, Bounds& bounds) {
  const auto [depth, height, width] = values.size;
  const int64_t step = values.steps[2];
  for (int64_t z = 0; z < depth; ++z) {
    for (int64_t y = 0; y < height; ++y) {
      const float* row = values.row(channel, z, y);
      if (step == 1 && !has_above(row, width, threshold)) continue;
      int64_t first = 0, last = width - 1;
      while (first < width && !(row[first * step] > threshold)) ++first;
      if (first == width) continue;
      while (!(row[last * step] > threshold)) --last;
      bounds.add(z, y, first, last);
    }
  }
}

int64_t crop_of_axis(const std::vector<int64_t>& values, size_t axis) {
  return values.size() == 1 ? values[0] : values[axis];
}

}  // namespace

VolumeBox center_box(const Extent& volume, const Extent& size) {
  VolumeBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::min(size[axis], volume[axis]);
    box.start[axis] = std::max<int64_t>(volume[axis] / 2 - size[axis] / 2, 0);
  }
  return box;
}

VolumeBox draw_spatial_crop(const RandSpatialCropConfig& config, const Extent& volume,
                            RandomStream& random) {
  VolumeBox box;
  box.size = size_or(config.roi_size, volume);
  if (config.random_size) {
    const Extent most = config.max_roi_size.empty() ? volume : size_or(config.max_roi_size, volume);
    for (size_t axis = 0; axis < 3; ++axis) {
      if (box.size[axis] > most[axis]) {
        fail<DataError>(
            "rand_spatial_crop: a least size of {} along axis {}, but {} is the largest there; use "
            "a smaller roi_size or pad before",
            box.size[axis], axis, most[axis]);
      }
      box.size[axis] += draw_below(most[axis] - box.size[axis] + 1, random);
    }
  }
  if (!config.random_center) return center_box(volume, box.size);
  for (size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::min(box.size[axis], volume[axis]);
    box.start[axis] = draw_below(volume[axis] - box.size[axis] + 1, random);
  }
  return box;
}

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

VolumeBox box_around(const Extent& center, const Extent& size, const Extent& volume) {
  VolumeBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    box.size[axis] = std::min(size[axis], volume[axis]);
    box.start[axis] =
        std::clamp<int64_t>(center[axis] - box.size[axis] / 2, 0, volume[axis] - box.size[axis]);
  }
  return box;
}

VolumeBox draw_pos_neg_crop(const RandCropByPosNegLabelConfig& config, const VolumeItem& item,
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
  const int64_t k = draw_below(is_foreground ? counts.foreground : counts.background, random);
  return box_around(find_label(item, config, is_foreground, k, scratch), size, volume);
}

VolumeBox foreground_box(const CropForegroundConfig& config, const VolumeItem& item) {
  const auto threshold = static_cast<float>(config.threshold);
  Bounds bounds;
  for (int64_t c = 0; config.channel_indices.empty() && c < item.values.channels; ++c) {
    add_channel(item.values, c, threshold, bounds);
  }
  for (const int64_t channel : config.channel_indices) {
    if (channel >= item.values.channels) {
      fail<DataError>("crop_foreground: channel {} of a volume with {}; channels count from 0",
                      channel, item.values.channels);
    }
    add_channel(item.values, channel, threshold, bounds);
  }
  if (bounds.largest[0] < 0) {
    fail<DataError>("crop_foreground: no voxel above {}; use a lower threshold", threshold);
  }
  VolumeBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t margin = crop_of_axis(config.margin, axis);
    int64_t start = bounds.least[axis] - margin;
    int64_t end = bounds.largest[axis] + margin + 1;
    if (config.allow_smaller) {
      start = std::max<int64_t>(start, 0);
      end = std::min(end, item.values.size[axis]);
    }
    const int64_t k = crop_of_axis(config.k_divisible, axis);
    box.size[axis] = (end - start + k - 1) / k * k;
    box.start[axis] = start - (box.size[axis] - (end - start)) / 2;
  }
  return box;
}

}  // namespace fovea::data
