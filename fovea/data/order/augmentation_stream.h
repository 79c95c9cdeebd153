// What a sample's augmentation draws from.
#pragma once

#include <cstdint>

#include "fovea/core/philox.h"

namespace fovea::data {

// A function of (seed, epoch, sample index) and nothing else.
RandomStream augmentation_stream(uint64_t seed, int64_t epoch, int64_t index);

// The same for repeat `repeat` of the sample (RepeatedAugmentation); repeat 0 is
// augmentation_stream.
RandomStream repeated_augmentation_stream(uint64_t seed, int64_t epoch, int64_t index,
                                          int64_t repeat);

}  // namespace fovea::data
