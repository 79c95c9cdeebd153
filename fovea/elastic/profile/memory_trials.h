// Trying how large a step memory holds: in a process that may run out of it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/elastic/profile/memory_search.h"
#include "fovea/train/recipe/config.h"

namespace fovea::elastic {

// Takes steps of the recipe in this process, on config.device, with passes of each of `batches` in
// turn, up to the first that does not fit; each is reported at once. On the CPU the process may
// grow by growth_bytes from then on: an allocation beyond that fails, long before the system runs
// out of memory. Should it come to that all the same, the system ends this process first.
void run_memory_trials(const train::TrainConfig& config, const std::vector<int64_t>& batches,
                       int64_t growth_bytes, const std::function<void(const MemoryTrial&)>& report);

// Bytes of a step with a pass of so many samples, from the rehearsal of plan; where the model's
// step cannot be rehearsed, the samples themselves. `most`: the largest that is asked for.
std::function<double(int64_t)> analytic_bytes(const train::TrainConfig& config, int64_t most);

}  // namespace fovea::elastic
