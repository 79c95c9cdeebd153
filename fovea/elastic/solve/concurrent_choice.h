// How many passes at the same time a profile shows to be fastest.
#pragma once

#include <cstdint>

#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

// Whether it was measured what passes take beside each other.
bool has_concurrent(const DeviceProfile& profile);

// A step's passes of one size.
struct StepPasses {
  int64_t number = 1;
  int64_t batch = 1;  // samples of each
};

// Of those that were measured and that memory holds, 1 where none takes less time than one after
// another by this part of it.
int64_t best_concurrent(const DeviceProfile& profile, const StepPasses& passes, double least_gain);

}  // namespace fovea::elastic
