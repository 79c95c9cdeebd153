// Reading a whole data set to find what is damaged.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea::data {

struct DamagedSample {
  int64_t index = 0;
  std::string reason;  // the message, which names the file
};

struct CheckReport {
  int64_t samples = 0;
  std::vector<DamagedSample> damaged;  // by index; all of them
};

// Reads and decodes every sample. The result does not depend on `threads` (0: one for each core).
CheckReport check_dataset(const Dataset& dataset, int64_t threads = 0,
                          const std::function<void(int64_t done, int64_t total)>& progress = {});

}  // namespace fovea::data
