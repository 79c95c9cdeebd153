#include "fovea/data/adaptive/axis_weights.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::data::patching {
namespace {

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

// Keys 1981 with OpenCV's a, at distances 1 + x, x, 1 - x and 2 - x.
void cubic_weights(double x, double (&weights)[4]) {
  constexpr double a = -0.75;
  const auto far = [&](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  const auto near = [&](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  weights[0] = far(x + 1);
  weights[1] = near(x);
  weights[2] = near(1 - x);
  weights[3] = 1 - weights[0] - weights[1] - weights[2];
}

// Adds a weight to element `at`, or to the one at the end where that is outside.
void add_weight(AxisWeights& axis, int64_t i, int64_t at, double weight) {
  const int64_t inside = std::clamp<int64_t>(at, 0, axis.in - 1);
  axis.weights[static_cast<size_t>(i * axis.taps + inside - axis.starts[static_cast<size_t>(i)])] +=
      static_cast<float>(weight);
}

void set_start(AxisWeights& axis, int64_t i, int64_t at) {
  axis.starts[static_cast<size_t>(i)] =
      static_cast<int32_t>(std::clamp<int64_t>(at, 0, axis.in - axis.taps));
}

void fill_cubic(AxisWeights& axis) {
  for (int64_t i = 0; i < axis.out; ++i) {
    const double position = (static_cast<double>(i) + 0.5) * ratio(axis.in, axis.out) - 0.5;
    const double floor = std::floor(position);
    const auto first = static_cast<int64_t>(floor) - 1;
    double weights[4];
    cubic_weights(position - floor, weights);
    set_start(axis, i, first);
    for (int64_t k = 0; k < 4; ++k) add_weight(axis, i, first + k, weights[k]);
  }
}

void fill_area(AxisWeights& axis) {
  const double scale = ratio(axis.in, axis.out);
  for (int64_t i = 0; i < axis.out; ++i) {
    // In whole numbers: the part [i in, (i + 1) in) of elements that are `out` long.
    const int64_t first = i * axis.in / axis.out;
    set_start(axis, i, first);
    for (int64_t at = first; at * axis.out < (i + 1) * axis.in; ++at) {
      const int64_t begin = std::max(at * axis.out, i * axis.in);
      const int64_t end = std::min((at + 1) * axis.out, (i + 1) * axis.in);
      add_weight(axis, i, at, ratio(end - begin, axis.out) / scale);
    }
  }
}

void fill_linear(AxisWeights& axis, bool is_aligned) {
  for (int64_t i = 0; i < axis.out; ++i) {
    double position = (static_cast<double>(i) + 0.5) * ratio(axis.in, axis.out) - 0.5;
    if (is_aligned) {
      position = axis.out == 1 ? 0.0 : static_cast<double>(i) * ratio(axis.in - 1, axis.out - 1);
    }
    position = std::clamp(position, 0.0, static_cast<double>(axis.in - 1));
    const double floor = std::floor(position);
    const auto first = static_cast<int64_t>(floor);
    set_start(axis, i, first);
    add_weight(axis, i, first, 1 - (position - floor));
    add_weight(axis, i, first + 1, position - floor);
  }
}

int64_t num_taps(int64_t in, int64_t out, AxisRule rule) {
  if (rule == AxisRule::kCubic) return std::min<int64_t>(in, 4);
  if (rule == AxisRule::kArea)
    return std::min<int64_t>(in, in % out == 0 ? in / out : in / out + 2);
  return std::min<int64_t>(in, 2);
}

}  // namespace

void make_axis(int64_t in, int64_t out, AxisRule rule, AxisWeights& axis) {
  FOVEA_CHECK(in > 0 && out > 0 && (rule != AxisRule::kArea || out <= in),
              "resampling {} to {}; expected sizes above 0, and a mean only where shrinking", in,
              out);
  axis.rule = rule;
  axis.in = in;
  axis.out = out;
  axis.taps = in == out ? 1 : num_taps(in, out, rule);
  axis.starts.assign(static_cast<size_t>(out), 0);
  axis.weights.assign(static_cast<size_t>(out * axis.taps), 0.0f);
  if (in == out) {
    for (int64_t i = 0; i < out; ++i) {
      set_start(axis, i, i);
      axis.weights[static_cast<size_t>(i)] = 1.0f;
    }
  } else if (rule == AxisRule::kCubic) {
    fill_cubic(axis);
  } else if (rule == AxisRule::kArea) {
    fill_area(axis);
  } else {
    fill_linear(axis, rule == AxisRule::kLinearAligned);
  }
  axis.dense.clear();
  if (out < in) return;
  axis.dense.assign(static_cast<size_t>(in * out), 0.0f);
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t k = 0; k < axis.taps; ++k) {
      axis.dense[static_cast<size_t>((axis.starts[static_cast<size_t>(i)] + k) * out + i)] +=
          axis.weights[static_cast<size_t>(i * axis.taps + k)];
    }
  }
}

AxisWeights part_of_axis(const AxisWeights& axis, int64_t first, int64_t count) {
  AxisWeights part;
  part.rule = axis.rule;
  part.in = axis.in;
  part.out = count;
  part.taps = axis.taps;
  const auto start = axis.starts.begin() + static_cast<ptrdiff_t>(first);
  part.starts.assign(start, start + static_cast<ptrdiff_t>(count));
  const auto weight = axis.weights.begin() + static_cast<ptrdiff_t>(first * axis.taps);
  part.weights.assign(weight, weight + static_cast<ptrdiff_t>(count * axis.taps));
  return part;
}

int64_t nearest(int64_t i, int64_t in, int64_t out, NearestRule rule) {
  if (rule == NearestRule::kCentre) return (2 * i + 1) * in / (2 * out);
  if (rule == NearestRule::kFloor) return i * in / out;
  if (out == 1) return 0;
  return (2 * i * (in - 1) + out - 2) / (2 * (out - 1));  // i (in - 1) / (out - 1), halves down
}

}  // namespace fovea::data::patching
