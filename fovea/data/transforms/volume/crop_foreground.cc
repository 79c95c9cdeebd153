#include "fovea/data/transforms/volume/crop_foreground.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_moves.h"

namespace fovea::data {
namespace {

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

VoxelBox foreground_box(const CropForegroundConfig& config, const VolumeItem& item) {
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
  VoxelBox box;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t margin = of_axis(config.margin, axis);
    int64_t start = bounds.least[axis] - margin;
    int64_t end = bounds.largest[axis] + margin + 1;
    if (config.allow_smaller) {
      start = std::max<int64_t>(start, 0);
      end = std::min(end, item.values.size[axis]);
    }
    const int64_t k = of_axis(config.k_divisible, axis);
    box.size[axis] = (end - start + k - 1) / k * k;
    box.start[axis] = start - (box.size[axis] - (end - start)) / 2;
  }
  return box;
}

}  // namespace

void CropForegroundConfig::validate(ConfigIssues& issues) const {
  check_at_least("margin", margin, 0, issues);
  check_at_least("k_divisible", k_divisible, 1, issues);
  const bool is_negative = std::any_of(channel_indices.begin(), channel_indices.end(),
                                       [](int64_t channel) { return channel < 0; });
  if (is_negative) issues.add("channel_indices", listed(channel_indices) + "; expected 0 or more");
}

void CropForegroundConfig::apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const {
  const VoxelBox box = foreground_box(*this, item);
  Padding padding;
  Extent start, size;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t end = box.start[axis] + box.size[axis];
    start[axis] = std::max<int64_t>(box.start[axis], 0);
    size[axis] = std::min(end, item.values.size[axis]) - start[axis];
    padding.before[axis] = start[axis] - box.start[axis];
    padding.after[axis] = box.size[axis] - size[axis] - padding.before[axis];
  }
  crop(item, start, size);
  pad(item, padding, scratch);
}

}  // namespace fovea::data
