// Repeated augmentation (Hoffer et al. 2020; Touvron et al. 2021): each sample comes several times
// in a row, each time augmented anew, and an epoch ends where as many samples have been seen as the
// data set has. timm's RepeatAugSampler, defined on the global order: rank r of R ranks that takes
// places r, r + R, ... sees what timm's rank r does.
#pragma once

#include <cstdint>

namespace fovea::data {

class RepeatedAugmentation {
 public:
  // size: samples of the data set, above 0. num_repeats: from 1 on; 2.5 repeats by turns two and
  // three times. selected_round: an epoch is a multiple of it where the data set is that large; 0:
  // the data set's size. Throws ConfigError.
  RepeatedAugmentation(int64_t size, double num_repeats = 3, int64_t selected_round = 256);

  int64_t samples_per_epoch() const { return samples_per_epoch_; }
  // Which sample of the epoch's (shuffled) order stands at place [0, samples_per_epoch).
  int64_t order_place(int64_t place) const;
  // Which of its repeats that is, from 0 on.
  int64_t repeat(int64_t place) const;

 private:
  double num_repeats_;
  int64_t samples_per_epoch_;
};

}  // namespace fovea::data
