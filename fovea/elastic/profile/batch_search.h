// Which batches of a device are measured, and their passes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fovea/elastic/profile/pass_meter.h"
#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

enum class SearchKind {
  kStatic,   // powers of two up to the largest, and that
  kDynamic,  // until larger batches are hardly faster; more where times do not lie on a line
};
// "static", "dynamic". Throws ConfigError for another word.
SearchKind search_of(const std::string& word);

std::vector<int64_t> static_batches(int64_t largest);

// Takes the times of some passes of one shape; none: memory does not hold it after all.
using MeasurePasses =
    std::function<std::vector<PassTimes>(const PassShape& shape, int64_t warmup, int64_t steps)>;

struct BatchSearch {
  SearchKind kind = SearchKind::kStatic;
  int64_t largest = 1;  // batch that memory holds
  // Of several workers at the same time, by their number: the largest batch of each.
  std::map<int64_t, int64_t> largest_at_once = {};
  // Seconds of steps that a batch gets in each round, where it takes more than a few of them.
  double seconds = 0.3;
  int64_t rounds = 3;
  std::function<void()> pause = {};  // after each round of a batch
};

// Points by workers and batch, of those that memory holds. Of a round all batches come in turn, of
// one worker and of several, so that what else the machine does befalls all of them alike; medians
// over all rounds.
std::vector<ComputationPoint> measure_batches(const BatchSearch& search,
                                              const MeasurePasses& measure);

}  // namespace fovea::elastic
