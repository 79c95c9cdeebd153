#include "fovea/train/metrics/overlap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"

// K classes.
namespace fovea::train {
namespace {

struct ClassCounts {
  int64_t both = 0;
  int64_t labels = 0;
  int64_t predictions = 0;
};

ClassCounts counts_of(std::span<const int64_t> counts, int64_t num_classes, int64_t label) {
  ClassCounts found;
  for (int64_t other = 0; other < num_classes; ++other) {
    found.labels += counts[static_cast<size_t>(label * num_classes + other)];
    found.predictions += counts[static_cast<size_t>(other * num_classes + label)];
  }
  found.both = counts[static_cast<size_t>(label * num_classes + label)];
  return found;
}

template <class Score>
std::vector<double> scores(std::span<const int64_t> counts, int64_t num_classes, Score score) {
  FOVEA_CHECK(static_cast<int64_t>(counts.size()) == num_classes * num_classes,
              "{} counts of {} classes; expected {}", counts.size(), num_classes,
              num_classes * num_classes);
  std::vector<double> out;
  for (int64_t label = 0; label < num_classes; ++label) {
    const auto found = counts_of(counts, num_classes, label);
    out.push_back(found.labels > 0 ? score(found) : std::numeric_limits<double>::quiet_NaN());
  }
  return out;
}

}  // namespace

std::vector<double> dice_scores(std::span<const int64_t> counts, int64_t num_classes) {
  return scores(counts, num_classes, [](const ClassCounts& found) {
    return 2.0 * static_cast<double>(found.both) /
           static_cast<double>(found.labels + found.predictions);
  });
}

std::vector<double> iou_scores(std::span<const int64_t> counts, int64_t num_classes) {
  return scores(counts, num_classes, [](const ClassCounts& found) {
    return static_cast<double>(found.both) /
           static_cast<double>(found.labels + found.predictions - found.both);
  });
}

SampleMeans::SampleMeans(int64_t num_classes, int64_t first_class)
    : first_class_(first_class),
      sums_(static_cast<size_t>(num_classes)),
      counts_(static_cast<size_t>(num_classes)) {}

void SampleMeans::add(std::span<const double> scores) {
  FOVEA_CHECK(scores.size() == sums_.size(), "{} scores; expected {}", scores.size(), sums_.size());
  double sum = 0;
  int64_t count = 0;
  for (size_t label = 0; label < scores.size(); ++label) {
    if (std::isnan(scores[label])) continue;
    sums_[label] += scores[label];
    counts_[label] += 1;
    if (static_cast<int64_t>(label) < first_class_) continue;
    sum += scores[label];
    count += 1;
  }
  if (count == 0) return;
  sum_of_means_ += sum / static_cast<double>(count);
  num_means_ += 1;
}

std::vector<double> SampleMeans::numbers() const {
  auto all = sums_;
  all.insert(all.end(), counts_.begin(), counts_.end());
  all.push_back(sum_of_means_);
  all.push_back(static_cast<double>(num_means_));
  return all;
}

void SampleMeans::add_numbers(std::span<const double> numbers) {
  const size_t classes = sums_.size();
  FOVEA_CHECK(numbers.size() == 2 * classes + 2, "{} numbers; expected {}", numbers.size(),
              2 * classes + 2);
  for (size_t label = 0; label < classes; ++label) {
    sums_[label] += numbers[label];
    counts_[label] += static_cast<int64_t>(numbers[classes + label]);
  }
  sum_of_means_ += numbers[2 * classes];
  num_means_ += static_cast<int64_t>(numbers[2 * classes + 1]);
}

double SampleMeans::mean() const {
  return num_means_ > 0 ? sum_of_means_ / static_cast<double>(num_means_) : 0.0;
}

double SampleMeans::mean_of(int64_t label) const {
  const auto at = static_cast<size_t>(label);
  return counts_[at] > 0 ? sums_[at] / static_cast<double>(counts_[at]) : 0.0;
}

}  // namespace fovea::train
