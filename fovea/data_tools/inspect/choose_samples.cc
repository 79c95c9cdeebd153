#include "fovea/data_tools/inspect/choose_samples.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace fovea::data {

std::vector<int64_t> even_subset(int64_t total, int64_t count) {
  const bool is_all = count <= 0 || count >= total;
  std::vector<int64_t> indices(static_cast<size_t>(is_all ? total : count));
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    // In two parts: total * count may be too large for 64 bits.
    indices[i] = is_all ? place : place * (total / count) + place * (total % count) / count;
  }
  return indices;
}

ChosenSamples choose_by_class(const std::vector<SampleRecord>& records, int64_t count) {
  ChosenSamples chosen;
  if (count <= 0) return chosen;
  std::map<int64_t, std::vector<size_t>> places;  // by label
  for (size_t i = 0; i < records.size(); ++i) places[records[i].label].push_back(i);
  std::vector<size_t> unlabelled;
  if (const auto found = places.find(-1); found != places.end()) {
    unlabelled = std::move(found->second);
    places.erase(found);
  }
  std::vector<const std::vector<size_t>*> classes;
  for (const auto& [label, members] : places) classes.push_back(&members);
  const auto take = [&](const std::vector<size_t>& members, int64_t number) {
    for (const int64_t i : even_subset(static_cast<int64_t>(members.size()), number)) {
      chosen.samples.push_back(records[members[static_cast<size_t>(i)]]);
    }
  };
  const auto num_classes = static_cast<int64_t>(classes.size());
  if (num_classes > 0) {
    chosen.per_class = std::max<int64_t>(1, count / num_classes);
    for (const int64_t c : even_subset(num_classes, count)) {
      take(*classes[static_cast<size_t>(c)], chosen.per_class);
    }
  }
  const int64_t left = count - static_cast<int64_t>(chosen.samples.size());
  if (left > 0) take(unlabelled, left);
  return chosen;
}

}  // namespace fovea::data
