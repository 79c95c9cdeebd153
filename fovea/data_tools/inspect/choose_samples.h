// Which samples are looked at, where not all can be: evenly spread, the same in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data_tools/inspect/statistics.h"

namespace fovea::data {

// floor(i * total / count) for i < count; all of [0, total) where count is 0 or not below total.
std::vector<int64_t> even_subset(int64_t total, int64_t count);

// Samples to show, at most `count`: of every class equally many, evenly spread over the class,
// class by class; with more classes than `count`, one of each of an even subset of the classes.
// Samples without a label come last, or are all where nothing has a label.
struct ChosenSamples {
  std::vector<SampleRecord> samples;
  int64_t per_class = 0;  // of the classes that have so many; 0: there are no labels
};
ChosenSamples choose_by_class(const std::vector<SampleRecord>& records, int64_t count);

}  // namespace fovea::data
