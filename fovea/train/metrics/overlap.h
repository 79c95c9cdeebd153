// How far predicted and true classes of pixels or voxels agree, with MONAI's numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fovea::train {

// counts: [K, K] row-major, rows are labels, columns predictions, of one sample. -> [K]; NaN: the
// class has no label in the sample, so that it says nothing (MONAI's ignore_empty).
//   Dice: 2 |P and T| / (|P| + |T|), MONAI's DiceMetric
//   IoU:  |P and T| / |P or T|, MONAI's MeanIoU
std::vector<double> dice_scores(std::span<const int64_t> counts, int64_t num_classes);
std::vector<double> iou_scores(std::span<const int64_t> counts, int64_t num_classes);

// Means of a score over samples that come one by one; NaN is left out.
class SampleMeans {
 public:
  // first_class: 1 leaves the background out of mean().
  SampleMeans(int64_t num_classes, int64_t first_class);
  void add(std::span<const double> scores);  // [K] of one sample
  // Mean over samples of the sample's mean over classes [first_class, K); a sample without any
  // counts for nothing, and 0 stands for no sample at all: MONAI's reduction "mean".
  double mean() const;
  // Over the samples that have the class, 0 where none has: MONAI's reduction "mean_batch".
  double mean_of(int64_t label) const;
  // All of it as 2 K + 2 numbers, and taking in those of another one of as many classes.
  std::vector<double> numbers() const;
  void add_numbers(std::span<const double> numbers);
  // Samples that have the class.
  int64_t num_samples_of(int64_t label) const { return counts_[static_cast<size_t>(label)]; }

 private:
  int64_t first_class_;
  std::vector<double> sums_;     // [K]
  std::vector<int64_t> counts_;  // [K]
  double sum_of_means_ = 0;
  int64_t num_means_ = 0;
};

}  // namespace fovea::train
