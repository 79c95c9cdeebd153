// The confusion matrix of svg_plot.h.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/train/report/svg_plot.h"

namespace fovea::train {
namespace {

constexpr size_t kMaxNumbered = 32;  // classes whose cells are large enough for a number
constexpr double kCharacter = 6.6;   // mean width of one, in drawing units
constexpr size_t kMaxNameLength = 16;
constexpr double kStrong = 0.55;  // shade from which the number is drawn light

struct Layout {
  double cell, left, top, width, height;
  bool has_numbers;
};

// Cut to whole UTF-8 characters.
std::string shortened(const std::string& name) {
  if (name.size() <= kMaxNameLength) return name;
  size_t end = kMaxNameLength - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "\xE2\x80\xA6";  // ellipsis
}

Layout make_layout(const HeatMap& map) {
  const size_t classes = map.names.size();
  size_t longest = 0;
  for (const auto& name : map.names) longest = std::max(longest, shortened(name).size());
  const double room = 18 + kCharacter * static_cast<double>(longest);
  Layout layout{};
  layout.has_numbers = classes <= kMaxNumbered;
  layout.cell = classes <= 12        ? 44
                : layout.has_numbers ? 34
                                     : std::max(6.0, 720.0 / static_cast<double>(classes));
  const double side = layout.cell * static_cast<double>(classes);
  layout.left = layout.has_numbers ? room + 20 : 30;
  layout.top = layout.has_numbers ? 0.75 * room + 24 : 30;
  // The name of the last column leans out to the right.
  layout.width = layout.left + side + (layout.has_numbers ? std::max(40.0, 0.75 * room) : 8);
  layout.height = layout.top + side + 6;
  return layout;
}

html::Markup cell(const HeatMap& map, const Layout& layout, size_t row, size_t column,
                  double row_sum) {
  const int64_t count = map.counts[row][column];
  const double share = row_sum > 0 ? static_cast<double>(count) / row_sum : 0;
  const double shade = row == column ? share : std::sqrt(share);
  const double x = layout.left + layout.cell * static_cast<double>(column);
  const double y = layout.top + layout.cell * static_cast<double>(row);
  const auto words = html::element(
      "title", html::text(fmt::format("{} taken for {}: {} of {:.0f} ({:.1f} %)", map.names[row],
                                      map.names[column], count, row_sum, 100 * share)));
  html::Markup out;
  if (count > 0) {
    out += html::element("rect",
                         {{"class", row == column ? "heat-right" : "heat-wrong"},
                          {"fill-opacity", fmt::format("{:.3f}", std::max(0.04, shade))},
                          {"x", coordinate(x)},
                          {"y", coordinate(y)},
                          {"width", coordinate(layout.cell - 1)},
                          {"height", coordinate(layout.cell - 1)}},
                         words);
  }
  if (layout.has_numbers && count > 0) {
    out += html::element("text",
                         {{"class", shade > kStrong ? "count strong" : "count"},
                          {"pointer-events", "none"},
                          {"x", coordinate(x + (layout.cell - 1) / 2)},
                          {"y", coordinate(y + layout.cell / 2 + 4)}},
                         html::text(std::to_string(count)));
  }
  return out;
}

html::Markup names(const HeatMap& map, const Layout& layout) {
  html::Markup out;
  for (size_t i = 0; i < map.names.size(); ++i) {
    const double middle = layout.cell * (static_cast<double>(i) + 0.5);
    const auto name = html::text(shortened(map.names[i]));
    out += html::element("text",
                         {{"class", "name"},
                          {"text-anchor", "end"},
                          {"x", coordinate(layout.left - 6)},
                          {"y", coordinate(layout.top + middle + 4)}},
                         name);
    const double x = layout.left + middle + 3, y = layout.top - 6;
    out += html::element("text",
                         {{"class", "name"},
                          {"x", coordinate(x)},
                          {"y", coordinate(y)},
                          {"transform", fmt::format("rotate(-45 {:.1f} {:.1f})", x, y)}},
                         name);
  }
  return out;
}

html::Markup side_labels(const Layout& layout) {
  const double middle = (layout.top + layout.height) / 2;
  return html::element("text",
                       {{"x", "14"},
                        {"y", coordinate(middle)},
                        {"text-anchor", "middle"},
                        {"transform", fmt::format("rotate(-90 14 {:.1f})", middle)}},
                       html::text("label")) +
         html::element("text",
                       {{"x", coordinate((layout.left + layout.width) / 2)},
                        {"y", "14"},
                        {"text-anchor", "middle"}},
                       html::text("prediction"));
}

}  // namespace

html::Markup heat_map(const HeatMap& map) {
  FOVEA_CHECK(map.counts.size() == map.names.size(), "{} rows for {} names; expected one each",
              map.counts.size(), map.names.size());
  const auto layout = make_layout(map);
  html::Markup body = side_labels(layout);
  body += html::svg_element(
      "rect", {{"fill", "none"},
               {"class", "axis"},
               {"x", coordinate(layout.left - 1)},
               {"y", coordinate(layout.top - 1)},
               {"width", coordinate(layout.cell * static_cast<double>(map.names.size()) + 1)},
               {"height", coordinate(layout.cell * static_cast<double>(map.names.size()) + 1)}});
  if (layout.has_numbers) body += names(map, layout);
  for (size_t row = 0; row < map.counts.size(); ++row) {
    FOVEA_CHECK(map.counts[row].size() == map.names.size(), "row {} has {} cells for {} names", row,
                map.counts[row].size(), map.names.size());
    const double sum = std::accumulate(map.counts[row].begin(), map.counts[row].end(), 0.0);
    for (size_t column = 0; column < map.names.size(); ++column) {
      body += cell(map, layout, row, column, sum);
    }
  }
  const auto svg =
      html::element("svg",
                    {{"viewBox", fmt::format("0 0 {:.0f} {:.0f}", layout.width, layout.height)},
                     {"style", fmt::format("min-width:{:.0f}px", std::min(560.0, layout.width))},
                     {"role", "img"},
                     {"aria-label", map.title + "; the per-class table gives the same in words"}},
                    body);
  return html::element("figure", {{"class", "heat"}},
                       html::element("figcaption", html::text(map.title)) +
                           html::element("div",
                                         {{"class", "scroll plain"},
                                          {"tabindex", "0"},
                                          {"role", "group"},
                                          {"aria-label", map.title}},
                                         svg));
}

}  // namespace fovea::train
