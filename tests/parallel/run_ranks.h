// A test in several processes that talk to each other.
#pragma once

#include <cstdint>
#include <functional>

#include "fovea/parallel/world.h"

namespace fovea::parallel::testing {

// Starts this program once for each rank (rank_starter.h), for the running test alone; there the
// call runs `body` and ends the process. Fails where a rank fails. One call of each number in a
// test: what stands before it runs in every rank.
void run_ranks(int64_t num_ranks, const std::function<void(World&)>& body);

}  // namespace fovea::parallel::testing
