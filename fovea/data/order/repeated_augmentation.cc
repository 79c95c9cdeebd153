#include "fovea/data/order/repeated_augmentation.h"

#include <cmath>

#include "fovea/core/error.h"

namespace fovea::data {

RepeatedAugmentation::RepeatedAugmentation(int64_t size, double num_repeats, int64_t selected_round)
    : num_repeats_(num_repeats), samples_per_epoch_(size) {
  if (size < 1 || !(num_repeats >= 1) || selected_round < 0) {
    fail<ConfigError>(
        "repeated augmentation of {} samples, {} times, rounded to {}; expected samples, repeats "
        "from 1 on, and 0 or more",
        size, num_repeats, selected_round);
  }
  if (selected_round > 0 && size >= selected_round) {
    samples_per_epoch_ = size / selected_round * selected_round;
  }
}

int64_t RepeatedAugmentation::order_place(int64_t place) const {
  FOVEA_CHECK(place >= 0 && place < samples_per_epoch_, "place {} of an epoch of {}", place,
              samples_per_epoch_);
  return static_cast<int64_t>(std::floor(static_cast<double>(place) / num_repeats_));
}

int64_t RepeatedAugmentation::repeat(int64_t place) const {
  const int64_t sample = order_place(place);
  int64_t first = place;
  while (first > 0 && order_place(first - 1) == sample) --first;
  return place - first;
}

}  // namespace fovea::data
