// Which passes the ranks of a step have: that follows from their shares of the batch and from sizes
// alone, so that each knows it of all.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/parallel/gradient_sync.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// Note [Slots]
// With slots (parallel.slots) a global batch is cut into V of them whatever ranks there are, and a
// rank has a range of slots. No pass has samples of two slots, so that what a pass computes does
// not depend on who does. Gradients, losses, weights and metrics are summed slot by slot, and then
// over the slots in one order; see Note [One tree over slots] and Note [Partial sums that travel].

// Samples [begin, end) of a rank's part of the batch. slot: that all of them are of; 0 without.
struct Pass {
  int64_t begin = 0, end = 0;
  int64_t slot = 0;
};

struct PassPlan {
  std::vector<Pass> own;
  int64_t most = 0, least = 0;  // passes of a rank
  parallel::SlotRange slots;    // that are this rank's
  parallel::SlotPlan of_slots;  // of all; no slots: without

  bool has_slots() const { return of_slots.slots() > 0; }
  bool are_unequal() const { return least < most; }
  bool has_empty_rank() const { return least == 0; }
};

// Throws Error where the rank's part of the batch is not its share.
PassPlan plan_passes(const StepInput& batch, const StepOptions& options);

// Samples of a micro-batch; the last one of a batch, or of a slot, may have fewer.
int64_t size_of_pass(const StepInput& batch, const StepOptions& options);

// How many samples the whole batch has.
int64_t global_size_of(const StepInput& batch);

}  // namespace fovea::train
