// The largest batch of a pass that a device's memory holds.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fovea/elastic/solve/profile.h"

namespace fovea::elastic {

// A training step with passes of so many samples that was tried by itself.
struct MemoryTrial {
  int64_t batch = 0;
  bool fits = false;       // it ran to its end
  int64_t peak_bytes = 0;  // of a GPU's memory, or by which the process grew

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("batch", self.batch);
    v.field("fits", self.fits);
    v.field("peak_bytes", self.peak_bytes);
  }
};

// Tries batches in their order, each within the limit, up to the first that does not fit.
using TryBatches = std::function<std::vector<MemoryTrial>(const std::vector<int64_t>& batches)>;

struct MemorySearch {
  int64_t most = 1;        // larger batches are not asked for
  double limit_bytes = 0;  // that the process may have of the device's memory
  // Bytes of a step on the device, as the rehearsal of plan has them: without what libraries and
  // allocators add.
  std::function<double(int64_t batch)> analytic;
  double bytes_of_sample = 0;     // in batches that the loader has ready, within the same memory
  double bytes_of_gradients = 0;  // of a pass, where several are computed at the same time
};

struct LargestBatch {
  int64_t local_batch = 0;  // 0: not even one sample
  std::vector<MemoryTrial> trials = {};
  Line bytes = {};  // of the trials, over the rehearsal's
};

// A few small batches give what there is beside the rehearsal's bytes and by how much these are to
// be taken larger; the batch that comes out is tried, and where it does not fit, smaller ones,
// until one does that is at most a tenth under one that does not.
LargestBatch find_largest_batch(const MemorySearch& search, const TryBatches& try_batches);

// How many passes of a batch are held at the same time, of `most` that are asked for: their samples
// as those of one pass, and each one's gradients until they are added.
int64_t passes_held(const MemorySearch& search, const LargestBatch& found, int64_t batch,
                    int64_t most);
// The largest batch of which so many are; 0: none.
int64_t largest_at_once(const MemorySearch& search, const LargestBatch& found, int64_t concurrent);

}  // namespace fovea::elastic
