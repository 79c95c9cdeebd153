// Charts as inline SVG: colours from the page's style sheet, so they follow its light and dark
// schemes; the values under the pointer come from a data attribute that the page's script reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/html/html.h"
#include "fovea/train/report/curve.h"

namespace fovea::train {

// "12.3": a place or length in a drawing.
std::string coordinate(double value);

struct PlotSeries {
  std::string name;
  Curve curve;
  int color = 0;          // 0 .. 7
  bool is_noisy = false;  // drawn smoothed, over a faint line of the values themselves
};

struct PlotOptions {
  std::string title;
  std::string x_label = "step";
  bool is_small = false;    // laid out for a third of the page, else for a half
  bool from_zero = false;   // the value axis begins at 0
  bool is_percent = false;  // the value axis ends at 100
  bool may_be_log = false;  // positive values of very unequal size get a logarithmic axis
};

// A figure with caption, legend and lines; series without a finite value are left out. Empty markup
// where no series is left. Steps with a value that is not finite are marked on the x axis.
html::Markup line_chart(const PlotOptions& options, const std::vector<PlotSeries>& series);

struct HeatMap {
  std::string title;
  std::vector<std::string> names;            // [C]
  std::vector<std::vector<int64_t>> counts;  // [C][C]: rows are labels, columns predictions
};

// A confusion matrix: cells shaded by their share of the row, the diagonal in one colour and
// errors, by the square root, in another. Numbers stand in the cells of up to 32 classes.
html::Markup heat_map(const HeatMap& map);

}  // namespace fovea::train
