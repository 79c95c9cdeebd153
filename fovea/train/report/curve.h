// A curve of a run: values over steps, and what is done to it before it is drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::train {

struct Curve {
  std::vector<double> x, y;  // of equal length, x rising; y may hold NaN and infinities

  size_t size() const { return x.size(); }
  void add(double at, double value) {
    x.push_back(at);
    y.push_back(value);
  }
};

// The points whose value is finite, and at most 1e300 in size.
Curve finite_points(const Curve& curve);
// The x of the points whose value is not.
std::vector<double> broken_points(const Curve& curve);

// At most `max_points` points that keep the shape: of each of max_points / 2 - 1 equal stretches of
// points the smallest and the largest value in their order, besides the first and the last point.
// Values must be finite; max_points >= 4.
Curve decimate(const Curve& curve, int64_t max_points);

// Mean over `window` points around each. Near the start, where curves are steep, as many before as
// after, so that nothing is shifted; near the end those that there are. Points that are not finite
// are left out.
Curve smooth(const Curve& curve, double window);

// The value below which `share` of the finite values lie (nearest rank); NaN where there is none.
double quantile(std::vector<double> values, double share);

// Round values (1, 2 or 5 times a power of ten apart) that cover most of [low, high]: all within
// it, about `target` of them, at least two unless low == high. Bounds must be finite.
std::vector<double> linear_ticks(double low, double high, int target);
// Ticks for a logarithmic axis, 0 < low <= high: powers of ten, or 1, 2, 5 times them over short
// ranges.
std::vector<double> log_ticks(double low, double high, int target);

// Labels for ticks, with just the decimals that tell them apart: "0.25", "20k", "1.5M", "5e-4".
std::vector<std::string> tick_labels(const std::vector<double>& ticks);

}  // namespace fovea::train
