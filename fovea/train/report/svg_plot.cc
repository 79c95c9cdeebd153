#include "fovea/train/report/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/json.h"

namespace fovea::train {
namespace {

// The drawing's own units; the browser scales it to the width of its column.
constexpr double kLeft = 46, kTop = 10;
struct Frame {
  double width = 430, height = 256;
  double right() const { return width - 10; }
  double bottom() const { return height - 38; }
};
constexpr Frame kLarge{}, kSmall{.width = 340, .height = 214};
constexpr int64_t kMaxPoints = 400;      // of one line
constexpr double kSmoothedShare = 0.02;  // of a noisy line's points under its moving average
constexpr size_t kMaxDots = 24;          // of a line whose points are drawn one by one
constexpr size_t kMaxMarks = 50;         // of values that are not finite
// Above this ratio of the largest to the median value a linear axis shows little but the largest.
constexpr double kLogRatio = 20;

struct Axis {
  double low = 0, high = 1;
  bool is_log = false;
  double from = 0, to = 1;  // drawing units of low and high

  double place(double value) const {
    const double share = is_log
                             ? (std::log(value) - std::log(low)) / (std::log(high) - std::log(low))
                             : (value - low) / (high - low);
    return from + std::clamp(share, -0.05, 1.05) * (to - from);
  }
};

// What is drawn of one series.
struct Line {
  const PlotSeries* series;
  Curve raw;   // decimated; empty unless noisy
  Curve main;  // decimated
  std::vector<double> broken;
};

Line make_line(const PlotSeries& series) {
  Line line{.series = &series, .raw = {}, .main = {}, .broken = broken_points(series.curve)};
  const auto finite = finite_points(series.curve);
  if (series.is_noisy && finite.size() > 20) {
    line.raw = decimate(finite, kMaxPoints);
    const double window = std::max(3.0, kSmoothedShare * static_cast<double>(finite.size()));
    line.main = decimate(smooth(finite, window), kMaxPoints);
  } else {
    line.main = decimate(finite, kMaxPoints);
  }
  return line;
}

// Steps count from 0, so that all charts of a run share their axis.
Axis x_axis(const std::vector<Line>& lines, const Frame& frame) {
  Axis axis{.low = 0, .high = 0, .is_log = false, .from = kLeft, .to = frame.right()};
  for (const auto& line : lines) {
    axis.low = std::min(axis.low, line.series->curve.x.front());
    axis.high = std::max(axis.high, line.series->curve.x.back());
  }
  if (axis.high <= axis.low) axis.high = axis.low + 1;
  return axis;
}

// The range of the values, with room above and below; single spikes of a noisy line may leave it.
Axis y_axis(const std::vector<Line>& lines, const PlotOptions& options, const Frame& frame) {
  std::vector<double> all;
  double low = lines[0].main.y[0], high = low;
  const auto cover = [&](double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  };
  for (const auto& line : lines) {
    for (const double value : line.main.y) cover(value);
    all.insert(all.end(), line.main.y.begin(), line.main.y.end());
    if (line.raw.size() > 0) {
      cover(quantile(line.raw.y, 0.01));
      cover(quantile(line.raw.y, 0.99));
    }
  }
  Axis axis{.low = low, .high = high, .is_log = false, .from = frame.bottom(), .to = kTop};
  axis.is_log = options.may_be_log && low > 0 && high > kLogRatio * quantile(all, 0.5);
  if (axis.is_log) return axis.low *= 0.9, axis.high *= 1.1, axis;
  if (options.from_zero) axis.low = std::min(0.0, low);
  double room = 0.05 * (high - axis.low);
  if (!(room > 0)) room = high == 0 ? 1 : 0.1 * std::fabs(high);
  axis.high += room;
  if (!options.from_zero || low < 0) {
    const bool was_positive = axis.low >= 0;
    axis.low -= room;
    if (was_positive) axis.low = std::max(axis.low, 0.0);
  }
  if (options.is_percent && high <= 100) axis.high = std::min(axis.high, 100.0);
  return axis;
}

html::Markup label_at(double x, double y, std::string_view anchor, std::string_view label) {
  return html::element(
      "text", {{"x", coordinate(x)}, {"y", coordinate(y)}, {"text-anchor", std::string(anchor)}},
      html::text(label));
}

html::Markup grid_line(std::string_view css_class, double x1, double y1, double x2, double y2) {
  return html::svg_element("line", {{"class", std::string(css_class)},
                                    {"x1", coordinate(x1)},
                                    {"y1", coordinate(y1)},
                                    {"x2", coordinate(x2)},
                                    {"y2", coordinate(y2)}});
}

html::Markup plot_axes(const Axis& x, const Axis& y, const std::string& x_label) {
  const double right = x.to, bottom = y.from;
  html::Markup out;
  const auto y_ticks = y.is_log ? log_ticks(y.low, y.high, 5) : linear_ticks(y.low, y.high, 5);
  const auto y_labels = tick_labels(y_ticks);
  for (size_t i = 0; i < y_ticks.size(); ++i) {
    const double at = y.place(y_ticks[i]);
    out += grid_line("grid", kLeft, at, right, at);
    out += label_at(kLeft - 7, at + 4, "end", y_labels[i]);
  }
  out += grid_line("axis", kLeft, bottom, right, bottom);
  const auto x_ticks = linear_ticks(x.low, x.high, 6);
  const auto x_labels = tick_labels(x_ticks);
  for (size_t i = 0; i < x_ticks.size(); ++i) {
    const double at = x.place(x_ticks[i]);
    out += grid_line("axis", at, bottom, at, bottom + 4);
    out += label_at(at, bottom + 17, "middle", x_labels[i]);
  }
  return out + label_at(right, bottom + 33, "end", x_label);
}

html::Markup plot_curve(const Curve& curve, const Axis& x, const Axis& y,
                        const std::string& css_class) {
  std::string points;
  for (size_t i = 0; i < curve.size(); ++i) {
    if (i > 0) points += ' ';
    points += coordinate(x.place(curve.x[i])) + ',' + coordinate(y.place(curve.y[i]));
  }
  return html::svg_element("polyline", {{"class", css_class}, {"points", points}});
}

html::Markup plot_lines(const std::vector<Line>& lines, const Axis& x, const Axis& y) {
  html::Markup faint, main;
  for (const auto& line : lines) {
    const auto color = fmt::format("curve s{}", line.series->color % 8);
    if (line.raw.size() > 0) faint += plot_curve(line.raw, x, y, color + " faint");
    main += plot_curve(line.main, x, y, color);
    // Few values, as of evaluations: the points themselves count.
    if (line.main.size() <= kMaxDots) {
      for (size_t i = 0; i < line.main.size(); ++i) {
        main += html::svg_element("circle", {{"class", fmt::format("f{}", line.series->color % 8)},
                                             {"cx", coordinate(x.place(line.main.x[i]))},
                                             {"cy", coordinate(y.place(line.main.y[i]))},
                                             {"r", "2.5"}});
      }
    }
    for (size_t i = 0; i < std::min(kMaxMarks, line.broken.size()); ++i) {
      const double at = x.place(line.broken[i]);
      main += grid_line("broken", at, y.from - 8, at, y.from);
    }
  }
  return faint + main;
}

html::Markup legend(const std::vector<Line>& lines) {
  html::Markup items;
  for (const auto& line : lines) {
    const auto swatch =
        html::element("i", {{"class", fmt::format("b{}", line.series->color % 8)}}, {});
    auto name = line.series->name;
    if (!line.broken.empty()) {
      name += fmt::format(" ({} not finite, marked red)", line.broken.size());
    }
    items += html::element("li", swatch + html::text(name));
  }
  return html::element("ul", {{"class", "legend"}}, items);
}

std::string description(const PlotOptions& options, const std::vector<Line>& lines) {
  std::string words = options.title + " over " + options.x_label + ".";
  for (const auto& line : lines) {
    words += fmt::format(" {}: from {:.4g} to {:.4g}.", line.series->name, line.main.y.front(),
                         line.main.y.back());
  }
  return words;
}

std::string hover_data(const PlotOptions& options, const std::vector<Line>& lines, const Axis& x,
                       double width) {
  auto series = nlohmann::json::array();
  for (const auto& line : lines) {
    auto values = nlohmann::json::array();
    for (const double value : line.main.y) values.push_back(fmt::format("{:.4g}", value));
    series.push_back({{"name", line.series->name},
                      {"color", line.series->color % 8},
                      {"x", line.main.x},
                      {"y", values}});
  }
  const nlohmann::json data = {{"label", options.x_label},
                               {"width", width},
                               {"left", kLeft},
                               {"right", x.to},
                               {"low", x.low},
                               {"high", x.high},
                               {"series", series}};
  return json_text(data);
}

}  // namespace

std::string coordinate(double value) { return fmt::format("{:.1f}", value); }

html::Markup line_chart(const PlotOptions& options, const std::vector<PlotSeries>& series) {
  std::vector<Line> lines;
  for (const auto& one : series) {
    auto line = make_line(one);
    if (line.main.size() > 0) lines.push_back(std::move(line));
  }
  if (lines.empty()) return {};
  const auto& frame = options.is_small ? kSmall : kLarge;
  const auto x = x_axis(lines, frame);
  const auto y = y_axis(lines, options, frame);
  const auto cursor = html::svg_element("line", {{"class", "cursor"},
                                                 {"x1", coordinate(kLeft)},
                                                 {"x2", coordinate(kLeft)},
                                                 {"y1", coordinate(kTop)},
                                                 {"y2", coordinate(frame.bottom())}});
  const auto svg =
      html::element("svg",
                    {{"viewBox", fmt::format("0 0 {} {}", frame.width, frame.height)},
                     {"role", "img"},
                     {"aria-label", description(options, lines)}},
                    plot_axes(x, y, options.x_label) + plot_lines(lines, x, y) + cursor);
  const auto caption = options.title + (y.is_log ? " (logarithmic)" : "");
  return html::element(
      "figure", {{"class", "chart"}, {"data-chart", hover_data(options, lines, x, frame.width)}},
      html::element("figcaption", html::text(caption)) + legend(lines) + svg);
}

}  // namespace fovea::train
