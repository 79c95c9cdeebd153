#include "fovea/train/metrics/hausdorff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/train/metrics/distance_transform.h"

namespace fovea::train {
namespace {

using data::VolumeSize;

struct Box {
  std::array<int64_t, 3> low, high;  // high is one past the last voxel

  VolumeSize size() const { return {high[0] - low[0], high[1] - low[1], high[2] - low[2]}; }
};

// Calls visit(d, h, w, index) for each voxel, in order.
template <class Visit>
void for_each_voxel(VolumeSize size, Visit visit) {
  int64_t index = 0;
  for (int64_t d = 0; d < size.depth; ++d) {
    for (int64_t h = 0; h < size.height; ++h) {
      for (int64_t w = 0; w < size.width; ++w) visit(d, h, w, index++);
    }
  }
}

// Around the voxels of both masks. Distances between them are the same in it, and it is smaller.
Box bounding_box(std::span<const uint8_t> first, std::span<const uint8_t> second, VolumeSize size) {
  constexpr auto kLargest = std::numeric_limits<int64_t>::max();
  Box box{{kLargest, kLargest, kLargest}, {0, 0, 0}};
  for_each_voxel(size, [&](int64_t d, int64_t h, int64_t w, int64_t index) {
    if (first[index] == 0 && second[index] == 0) return;
    const std::array<int64_t, 3> place = {d, h, w};
    for (size_t axis = 0; axis < 3; ++axis) {
      box.low[axis] = std::min(box.low[axis], place[axis]);
      box.high[axis] = std::max(box.high[axis], place[axis] + 1);
    }
  });
  return box;
}

// The surface voxels of a mask within `box`, which holds the mask. -> [box]
std::vector<uint8_t> surface(std::span<const uint8_t> mask, VolumeSize size, const Box& box,
                             int spatial_dims) {
  const std::array<int64_t, 3> sides = {size.depth, size.height, size.width};
  const std::array<int64_t, 3> strides = {size.height * size.width, size.width, 1};
  std::vector<uint8_t> is_surface(static_cast<size_t>(box.size().voxels()));
  for_each_voxel(box.size(), [&](int64_t d, int64_t h, int64_t w, int64_t index) {
    const std::array<int64_t, 3> place = {box.low[0] + d, box.low[1] + h, box.low[2] + w};
    const int64_t at = place[0] * strides[0] + place[1] * strides[1] + place[2];
    if (mask[at] == 0) return;
    for (size_t axis = static_cast<size_t>(3 - spatial_dims); axis < 3; ++axis) {
      const bool is_edge = place[axis] == 0 || place[axis] + 1 == sides[axis];
      if (is_edge || mask[at - strides[axis]] == 0 || mask[at + strides[axis]] == 0) {
        is_surface[index] = 1;
        return;
      }
    }
  });
  return is_surface;
}

// Linear between the two nearest ranks, as torch.quantile.
double percentile_of(std::vector<double>& values, double percentile) {
  const double rank = percentile / 100 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<int64_t>(std::floor(rank));
  std::nth_element(values.begin(), values.begin() + below, values.end());
  const double low = values[below];
  if (below + 1 == static_cast<int64_t>(values.size())) return low;
  const double high = *std::min_element(values.begin() + below + 1, values.end());
  return low + (rank - static_cast<double>(below)) * (high - low);
}

// Percentile of the distances from `from` to the nearest voxel of `to`; NaN where one is empty.
double directed_distance(const std::vector<uint8_t>& from, const std::vector<uint8_t>& to,
                         VolumeSize size, const HausdorffOptions& options) {
  const auto squares = squared_distances(to, size, options.spacing);
  std::vector<double> distances;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 0) distances.push_back(std::sqrt(squares[i]));
  }
  if (distances.empty() || std::isinf(distances.front())) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return percentile_of(distances, options.percentile);
}

}  // namespace

double hausdorff_distance(std::span<const uint8_t> predicted, std::span<const uint8_t> label,
                          VolumeSize size, const HausdorffOptions& options) {
  const auto voxels = static_cast<size_t>(size.voxels());
  FOVEA_CHECK(predicted.size() == voxels && label.size() == voxels,
              "masks of {} and {} voxels; expected {}x{}x{} of both", predicted.size(),
              label.size(), size.depth, size.height, size.width);
  FOVEA_CHECK(options.percentile >= 0 && options.percentile <= 100,
              "percentile={}; expected a number in [0, 100]", options.percentile);
  const auto box = bounding_box(predicted, label, size);
  if (box.high[0] == 0) return std::numeric_limits<double>::quiet_NaN();
  const auto from = surface(predicted, size, box, options.spatial_dims);
  const auto to = surface(label, size, box, options.spatial_dims);
  const double there = directed_distance(from, to, box.size(), options);
  const double back = directed_distance(to, from, box.size(), options);
  return std::isnan(there) || std::isnan(back) ? std::numeric_limits<double>::quiet_NaN()
                                               : std::max(there, back);
}

}  // namespace fovea::train
