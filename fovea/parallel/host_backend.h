// What carries tensors in host memory between the ranks of a group: shared memory, or Gloo.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

class KeyStore;
struct GroupOptions;

// A collective that was begun. Where it is given up, its tensors live as long as they are needed.
class HostWork {
 public:
  virtual ~HostWork() = default;
  // Waits so long at most. -> whether it is done. Throws what it failed with.
  virtual bool wait(std::chrono::milliseconds patience) = 0;
};

// Collectives of a group, begun by all of its ranks in one order. Sums over more than two ranks of
// a reduce-scatter are not among them: whoever wants those exchanges the parts.
class HostBackend {
 public:
  virtual ~HostBackend() = default;
  // Does not wait for others. on_done: called when it is done, in any thread; may be empty.
  virtual std::unique_ptr<HostWork> begin(const Communicator::Request& request,
                                          std::function<void()> on_done) = 0;
  // Work that is under way, here and on the other ranks, ends with an error at once, also beside a
  // rank that does not answer; so does all that is begun later. From any thread.
  virtual void give_up(const std::string& why) = 0;
};

// Shared memory where all ranks of the group can use it, else Gloo; all of them come to the same.
// Collective over the group. Throws ConfigError: FOVEA_COLLECTIVES wants what cannot be, or differs
// among the ranks. Throws RankError: a rank did not come.
std::unique_ptr<HostBackend> make_host_backend(const KeyStore& store, const GroupOptions& options);

// Gloo, in any case. Collective over the group.
std::unique_ptr<HostBackend> make_gloo_backend(const KeyStore& store, const GroupOptions& options);

// Empty: processes of this machine can share memory; else why they cannot.
std::string why_no_shared_memory();

}  // namespace fovea::parallel
