// How large the samples of a set are, drawn.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/data_tools/inspect/statistics.h"
#include "fovea/html/html.h"

namespace fovea::data {

// Bar i counts the sides from low + i * step on, below low + (i + 1) * step.
struct SideHistogram {
  int64_t low = 0;
  int64_t step = 1;
  std::vector<int64_t> counts;
};

// Of the sides along one axis of [D, H, W]: at most 24 bars, whose step is 1, 2 or 5 times a power
// of ten. sizes: how many samples have each; at least one.
SideHistogram side_histogram(const std::map<Extent, int64_t>& sizes, size_t axis);

// A drawing for each axis along which the sides differ; empty where none does.
html::Markup size_histograms(const std::map<Extent, int64_t>& sizes, const std::string& title);

}  // namespace fovea::data
