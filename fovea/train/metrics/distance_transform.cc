#include "fovea/train/metrics/distance_transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The lower envelope of the parabolas values[q] + (x - q spacing)^2 over one line.
class Envelope {
 public:
  explicit Envelope(int64_t longest)
      : values_(static_cast<size_t>(longest)),
        sites_(static_cast<size_t>(longest)),
        starts_(static_cast<size_t>(longest)) {}

  // Replaces the `count` values at `first`, `stride` apart, by the envelope at their places.
  void apply(double* first, int64_t count, int64_t stride, double spacing) {
    int64_t last = -1;
    for (int64_t q = 0; q < count; ++q) {
      values_[q] = first[q * stride];
      if (std::isinf(values_[q])) continue;
      double start = -kInfinity;
      while (last >= 0) {
        start = crossing(sites_[last], q, spacing);
        if (start > starts_[last]) break;
        --last;
        start = -kInfinity;
      }
      ++last;
      sites_[last] = q;
      starts_[last] = start;
    }
    if (last < 0) return;
    int64_t at = 0;
    for (int64_t q = 0; q < count; ++q) {
      const double x = static_cast<double>(q) * spacing;
      while (at < last && starts_[at + 1] <= x) ++at;
      const double distance = x - static_cast<double>(sites_[at]) * spacing;
      first[q * stride] = values_[sites_[at]] + distance * distance;
    }
  }

 private:
  // Where the parabola of q falls below that of p, p < q.
  double crossing(int64_t p, int64_t q, double spacing) const {
    const double xp = static_cast<double>(p) * spacing, xq = static_cast<double>(q) * spacing;
    return (values_[q] - values_[p] + xq * xq - xp * xp) / (2 * (xq - xp));
  }

  std::vector<double> values_;
  std::vector<int64_t> sites_;
  std::vector<double> starts_;  // of each parabola's part of the envelope
};

}  // namespace

std::vector<double> squared_distances(std::span<const uint8_t> is_site, data::VolumeSize size,
                                      const std::array<double, 3>& spacing) {
  FOVEA_CHECK(static_cast<int64_t>(is_site.size()) == size.voxels(), "{} voxels; expected {}x{}x{}",
              is_site.size(), size.depth, size.height, size.width);
  for (const double step : spacing) {
    FOVEA_CHECK(step > 0 && std::isfinite(step), "spacing {}; expected numbers above 0", step);
  }
  std::vector<double> squares(is_site.size());
  for (size_t i = 0; i < squares.size(); ++i) squares[i] = is_site[i] != 0 ? 0.0 : kInfinity;
  Envelope envelope(std::max({size.depth, size.height, size.width}));
  const int64_t plane = size.height * size.width;
  for (int64_t row = 0; row < size.depth * size.height; ++row) {
    envelope.apply(squares.data() + row * size.width, size.width, 1, spacing[2]);
  }
  for (int64_t d = 0; d < size.depth; ++d) {
    for (int64_t w = 0; w < size.width; ++w) {
      envelope.apply(squares.data() + d * plane + w, size.height, size.width, spacing[1]);
    }
  }
  for (int64_t i = 0; i < plane; ++i) {
    envelope.apply(squares.data() + i, size.depth, plane, spacing[0]);
  }
  return squares;
}

}  // namespace fovea::train
