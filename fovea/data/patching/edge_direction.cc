#include "fovea/data/patching/edge_direction.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fovea/data/patching/border.h"

namespace fovea::data::patching {
namespace {

// Grows with atan2(dy, dx), from -2 to 2, at the cost of one division.
float diamond_angle(double dx, double dy) {
  const double sum = std::abs(dx) + std::abs(dy);
  if (sum == 0) return 0;
  const double slope = dy / sum;
  if (dx >= 0) return static_cast<float>(slope);
  return static_cast<float>(dy >= 0 ? 2 - slope : -2 - slope);
}

float direction(const EdgeVoxel& edge) { return static_cast<float>(std::atan2(edge.dy, edge.dx)); }

}  // namespace

EdgeVoxel sobel5(const float* slice, int64_t height, int64_t width, int64_t y, int64_t x) {
  std::array<double, 5> slopes;
  std::array<double, 5> sums;
  const bool is_inside = x >= 2 && x + 2 < width;
  for (int64_t k = 0; k < 5; ++k) {
    const float* row = slice + reflect101(y + k - 2, height) * width;
    std::array<double, 5> value;
    for (int64_t i = 0; i < 5; ++i) {
      const int64_t at = x + i - 2;
      value[static_cast<size_t>(i)] = row[is_inside ? at : reflect101(at, width)];
    }
    const auto line = static_cast<size_t>(k);
    slopes[line] = value[4] - value[0] + 2 * (value[3] - value[1]);
    sums[line] = value[0] + value[4] + 4 * (value[1] + value[3]) + 6 * value[2];
  }
  EdgeVoxel edge;
  edge.dx = slopes[0] + slopes[4] + 4 * (slopes[1] + slopes[3]) + 6 * slopes[2];
  edge.dy = sums[4] - sums[0] + 2 * (sums[3] - sums[1]);
  edge.position = diamond_angle(edge.dx, edge.dy);
  return edge;
}

void keep_upper_directions(std::span<const EdgeVoxel> edges, std::span<uint8_t> counts) {
  if (edges.empty()) return;
  const auto [first, last] = std::minmax_element(
      edges.begin(), edges.end(),
      [](const EdgeVoxel& a, const EdgeVoxel& b) { return a.position < b.position; });
  const bool has_flat = edges.size() < counts.size();
  const float least = has_flat ? std::min(0.0f, direction(*first)) : direction(*first);
  const float most = has_flat ? std::max(0.0f, direction(*last)) : direction(*last);
  const double middle = 0.5 * (double{least} + double{most});
  const float threshold = diamond_angle(std::cos(middle), std::sin(middle));
  for (const EdgeVoxel& edge : edges) {
    bool is_upper = edge.position > threshold;
    // Close to the threshold the order of roundings decides: as in the original, in float.
    if (std::abs(edge.position - threshold) < 1e-4f) {
      is_upper = (direction(edge) - least) / (most - least) > 0.5f;
    }
    if (!is_upper) counts[edge.index] = 0;
  }
}

}  // namespace fovea::data::patching
