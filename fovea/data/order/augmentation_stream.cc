#include "fovea/data/order/augmentation_stream.h"

#include <string>

namespace fovea::data {

RandomStream augmentation_stream(uint64_t seed, int64_t epoch, int64_t index) {
  return RandomStream(philox_key(seed, "augment"), static_cast<uint64_t>(index),
                      static_cast<uint32_t>(epoch));
}

RandomStream repeated_augmentation_stream(uint64_t seed, int64_t epoch, int64_t index,
                                          int64_t repeat) {
  if (repeat == 0) return augmentation_stream(seed, epoch, index);
  return RandomStream(philox_key(seed, "augment.repeat." + std::to_string(repeat)),
                      static_cast<uint64_t>(index), static_cast<uint32_t>(epoch));
}

}  // namespace fovea::data
