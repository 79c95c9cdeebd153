#include "fovea/data/order/repeated_augmentation.h"

#include <cmath>
#include <string>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/pipeline.h"

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

RandomStream repeated_augmentation_stream(uint64_t seed, int64_t epoch, int64_t index,
                                          int64_t repeat) {
  if (repeat == 0) return augmentation_stream(seed, epoch, index);
  return RandomStream(philox_key(seed, "augment.repeat." + std::to_string(repeat)),
                      static_cast<uint64_t>(index), static_cast<uint32_t>(epoch));
}

}  // namespace fovea::data
