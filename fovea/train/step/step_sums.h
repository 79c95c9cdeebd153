// What the passes of a step add up to, over slots and ranks.
#pragma once

#include "fovea/parallel/communicator.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// prepared.sums of a rank, and its notes, become those of all. One collective for all numbers of a
// step, and two before where a rank has no samples.
void sum_at_once(PreparedStep& prepared, parallel::Communicator& ranks);
// What the host has by one collective of the host's, which waits for no device.
void sum_late(PreparedStep& prepared, parallel::Communicator& ranks);

}  // namespace fovea::train
