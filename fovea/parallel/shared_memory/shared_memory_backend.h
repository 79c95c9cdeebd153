// Collectives of ranks of one machine, through shared memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fovea/parallel/host_backend.h"
#include "fovea/parallel/shared_memory/shared_file.h"

namespace fovea::parallel {

// Note [Who moves]
// A rank's side of the collectives of a group goes on when one of its threads has the lock: whoever
// starts one moves at once what can be moved; whoever waits for one moves what there is until it is
// done, and sleeps on the bell in between; and while nobody waits, and something is under way, a
// thread of the group does the same, so that sums and weights come while the rank computes. They
// are done in the order in which they were started.
//
// files: by rank, this rank's own among them, each of shared_bytes(). Several ranks of a group
// may be in one process.
std::unique_ptr<HostBackend> make_shared_memory_backend(std::vector<SharedFile> files, int64_t rank,
                                                        size_t ring_bytes);

}  // namespace fovea::parallel
