#include "fovea/data_tools/inspect/size_histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "fovea/core/error.h"
#include "fovea/core/number_text.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostBars = 24;
constexpr std::array<const char*, 3> kAxisNames = {"depth", "height", "width"};

// The drawing's own units; the browser scales it to the width of its column.
constexpr double kWidth = 340, kHeight = 150, kLeft = 46, kRight = kWidth - 10;
constexpr double kTop = 10, kBottom = kHeight - 26;

int64_t bar_of(int64_t side, int64_t low, int64_t step) { return (side - low) / step; }

int64_t step_for(int64_t least, int64_t most) {
  for (int64_t ten = 1;; ten *= 10) {
    for (const int64_t step : {ten, 2 * ten, 5 * ten}) {
      if (bar_of(most, least / step * step, step) < kMostBars) return step;
    }
  }
}

std::string units(double value) { return fmt::format("{:.1f}", value); }

html::Markup words_at(double x, double y, const char* anchor, const std::string& words) {
  return html::element("text", {{"x", units(x)}, {"y", units(y)}, {"text-anchor", anchor}},
                       html::text(words));
}

html::Markup line(const char* css_class, double y) {
  return html::svg_element("line", {{"class", css_class},
                                    {"x1", units(kLeft)},
                                    {"x2", units(kRight)},
                                    {"y1", units(y)},
                                    {"y2", units(y)}});
}

std::string count_words(int64_t count) {
  return format_count(static_cast<double>(count)) + (count == 1 ? " sample" : " samples");
}

html::Markup plot(const SideHistogram& histogram, const std::string& title) {
  const auto bars = static_cast<double>(histogram.counts.size());
  const int64_t most = *std::max_element(histogram.counts.begin(), histogram.counts.end());
  const double width = (kRight - kLeft) / bars;
  html::Markup bars_and_axes = line("grid", kTop);
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const int64_t count = histogram.counts[i];
    if (count == 0) continue;
    const int64_t from = histogram.low + static_cast<int64_t>(i) * histogram.step;
    const int64_t last = from + histogram.step - 1;
    const auto sides = from == last ? fmt::format("{}", from) : fmt::format("{} to {}", from, last);
    // A single sample among millions is seen, too.
    const double height =
        std::max(1.0, (kBottom - kTop) * static_cast<double>(count) / static_cast<double>(most));
    bars_and_axes +=
        html::element("rect",
                      {{"class", "f0"},
                       {"x", units(kLeft + width * static_cast<double>(i) + 0.5)},
                       {"y", units(kBottom - height)},
                       {"width", units(std::max(1.0, width - 1))},
                       {"height", units(height)}},
                      html::element("title", html::text(sides + ": " + count_words(count))));
  }
  bars_and_axes += line("axis", kBottom);
  bars_and_axes += words_at(kLeft - 7, kTop + 4, "end", format_count(static_cast<double>(most)));
  bars_and_axes += words_at(kLeft - 7, kBottom + 4, "end", "0");
  const int64_t end = histogram.low + static_cast<int64_t>(bars) * histogram.step;
  bars_and_axes += words_at(kLeft, kBottom + 17, "start", fmt::format("{}", histogram.low));
  bars_and_axes += words_at(kRight, kBottom + 17, "end", fmt::format("{}", end));
  const auto svg =
      html::element("svg",
                    {{"viewBox", fmt::format("0 0 {} {}", kWidth, kHeight)},
                     {"role", "img"},
                     {"aria-label", fmt::format("{}: samples by side, from {} to {}, at most "
                                                "{} in a bar",
                                                title, histogram.low, end, most)}},
                    bars_and_axes);
  return html::element("figure", {{"class", "chart"}},
                       html::element("figcaption", html::text(title)) + svg);
}

}  // namespace

SideHistogram side_histogram(const std::map<Extent, int64_t>& sizes, size_t axis) {
  FOVEA_CHECK(!sizes.empty(), "a histogram of no sizes; expected at least one");
  int64_t least = sizes.begin()->first[axis], most = least;
  for (const auto& [size, count] : sizes) {
    least = std::min(least, size[axis]);
    most = std::max(most, size[axis]);
  }
  SideHistogram histogram{.step = step_for(least, most), .counts = {}};
  histogram.low = least / histogram.step * histogram.step;
  histogram.counts.assign(static_cast<size_t>(bar_of(most, histogram.low, histogram.step)) + 1, 0);
  for (const auto& [size, count] : sizes) {
    const int64_t bar = bar_of(size[axis], histogram.low, histogram.step);
    histogram.counts[static_cast<size_t>(bar)] += count;
  }
  return histogram;
}

html::Markup size_histograms(const std::map<Extent, int64_t>& sizes, const std::string& title) {
  html::Markup figures;
  for (size_t axis = 0; axis < kAxisNames.size(); ++axis) {
    const bool is_one = std::all_of(sizes.begin(), sizes.end(), [&](const auto& entry) {
      return entry.first[axis] == sizes.begin()->first[axis];
    });
    if (is_one) continue;
    figures += plot(side_histogram(sizes, axis), title + ": " + kAxisNames[axis]);
  }
  return figures.empty() ? figures : html::element("div", {{"class", "charts small"}}, figures);
}

}  // namespace fovea::data
