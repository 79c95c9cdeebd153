#include "fovea/train/report/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

// Finite, and far enough from the largest number that sums and ranges of such values are finite
// too.
bool can_be_drawn(double value) { return std::fabs(value) <= 1e300; }

// Slack for ticks that a rounding error puts just beyond the end of the axis.
constexpr double kSlack = 1e-9;

// The smallest of 1, 2, 5 times a power of ten that is at least `rough`.
double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - kSlack)) return factor * power;
  }
  return 10 * power;
}

std::vector<double> multiples(double low, double high, double step) {
  const double first = std::ceil(low / step - kSlack);
  const double last = std::floor(high / step + kSlack);
  std::vector<double> ticks;
  for (double k = first; k <= last; k += 1) ticks.push_back(k == 0 ? 0.0 : k * step);
  return ticks;
}

// "1.50" -> "1.5", "20.0" -> "20".
std::string trim_zeros(std::string number) {
  if (number.find('.') == std::string::npos) return number;
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return number;
}

// 0.00025 -> "2.5e-4".
std::string scientific(double value) {
  if (value == 0) return "0";
  auto exponent = static_cast<int>(std::floor(std::log10(std::fabs(value))));
  auto mantissa = trim_zeros(fmt::format("{:.3f}", value / std::pow(10.0, exponent)));
  if (mantissa == "10" || mantissa == "-10") {  // rounded up to the next power
    mantissa = mantissa == "10" ? "1" : "-1";
    exponent += 1;
  }
  return fmt::format("{}e{}", mantissa, exponent);
}

std::string scaled(double value, double unit, const char* suffix) {
  return value == 0 ? "0" : trim_zeros(fmt::format("{:.3f}", value / unit)) + suffix;
}

}  // namespace

Curve finite_points(const Curve& curve) {
  Curve out;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (can_be_drawn(curve.y[i]) && can_be_drawn(curve.x[i])) out.add(curve.x[i], curve.y[i]);
  }
  return out;
}

std::vector<double> broken_points(const Curve& curve) {
  std::vector<double> out;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (!can_be_drawn(curve.y[i]) && can_be_drawn(curve.x[i])) out.push_back(curve.x[i]);
  }
  return out;
}

Curve decimate(const Curve& curve, int64_t max_points) {
  FOVEA_CHECK(max_points >= 4, "max_points={}; expected at least 4", max_points);
  const auto size = static_cast<int64_t>(curve.size());
  if (size <= max_points) return curve;
  const int64_t stretches = max_points / 2 - 1;
  Curve out;
  const auto keep = [&](int64_t i) {
    out.add(curve.x[static_cast<size_t>(i)], curve.y[static_cast<size_t>(i)]);
  };
  keep(0);
  for (int64_t stretch = 0; stretch < stretches; ++stretch) {
    const auto begin = curve.y.begin() + 1 + (size - 2) * stretch / stretches;
    const auto end = curve.y.begin() + 1 + (size - 2) * (stretch + 1) / stretches;
    const auto [low, high] = std::minmax_element(begin, end);
    const int64_t a = std::min(low, high) - curve.y.begin();
    const int64_t b = std::max(low, high) - curve.y.begin();
    keep(a);
    if (b != a) keep(b);
  }
  keep(size - 1);
  return out;
}

Curve smooth(const Curve& curve, double window) {
  auto out = finite_points(curve);
  const auto size = static_cast<int64_t>(out.size());
  const auto reach = static_cast<int64_t>(std::llround((window - 1) / 2));
  if (reach < 1) return out;
  std::vector<double> sums(out.y.size() + 1, 0.0);  // of all values before
  for (size_t i = 0; i < out.y.size(); ++i) sums[i + 1] = sums[i] + out.y[i];
  for (int64_t i = 0; i < size; ++i) {
    const int64_t first = i - std::min(reach, i);
    const int64_t last = std::min(size - 1, i + std::min(reach, i));
    const double sum = sums[static_cast<size_t>(last + 1)] - sums[static_cast<size_t>(first)];
    out.y[static_cast<size_t>(i)] = sum / static_cast<double>(last + 1 - first);
  }
  return out;
}

double quantile(std::vector<double> values, double share) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(values.size() - 1);
  const auto nth = values.begin() + std::llround(place);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

std::vector<double> linear_ticks(double low, double high, int target) {
  FOVEA_CHECK(std::isfinite(low) && std::isfinite(high) && target > 0,
              "ticks over [{}, {}], target {}; expected finite bounds", low, high, target);
  const double range = high - low;
  const double magnitude = std::max(std::fabs(low), std::fabs(high));
  if (!(range > magnitude * 1e-12)) return {low};
  const double step = round_step(range / target);
  auto ticks = multiples(low, high, step);
  if (ticks.size() < 2) ticks = multiples(low, high, round_step(step * 0.45));
  return ticks;
}

std::vector<double> log_ticks(double low, double high, int target) {
  FOVEA_CHECK(low > 0 && low <= high && std::isfinite(high),
              "logarithmic ticks over [{}, {}]; expected 0 < low <= high", low, high);
  const auto first = static_cast<int>(std::floor(std::log10(low)));
  const auto last = static_cast<int>(std::ceil(std::log10(high)));
  const int stride = std::max(1, (last - first) / std::max(1, target));
  const bool is_short = last - first <= target / 2;
  std::vector<double> ticks;
  for (int power = first; power <= last; power += stride) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10.0, power);
      if (factor > 1 && !is_short) break;
      if (tick >= low * (1 - kSlack) && tick <= high * (1 + kSlack)) ticks.push_back(tick);
    }
  }
  return ticks.size() >= 2 ? ticks : linear_ticks(low, high, target);
}

std::vector<std::string> tick_labels(const std::vector<double>& ticks) {
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();  // of those that are not 0
  for (const double tick : ticks) {
    largest = std::max(largest, std::fabs(tick));
    if (tick != 0) smallest = std::min(smallest, std::fabs(tick));
  }
  const auto label_with = [&](auto&& label) {
    std::vector<std::string> labels;
    for (const double tick : ticks) labels.push_back(label(tick));
    return labels;
  };
  std::vector<std::string> labels;
  if (largest >= 1e9 || (largest > 0 && (largest < 1e-2 || smallest < 1e-3))) {
    labels = label_with(scientific);
  } else if (largest >= 1e6) {
    labels = label_with([](double tick) { return scaled(tick, 1e6, "M"); });
  } else if (largest >= 1e4) {
    labels = label_with([](double tick) { return scaled(tick, 1e3, "k"); });
  } else {
    labels = label_with([](double tick) { return trim_zeros(fmt::format("{:.3f}", tick)); });
  }
  // Ticks closer together than these forms can tell: all digits that matter.
  if (std::set<std::string>(labels.begin(), labels.end()).size() < ticks.size()) {
    labels = label_with([](double tick) { return fmt::format("{:.7g}", tick); });
  }
  return labels;
}

}  // namespace fovea::train
