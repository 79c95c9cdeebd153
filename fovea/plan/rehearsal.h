// One rank of a training run that is not there: its model, shares and step, on the meta device.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/parallel/communicator.h"
#include "fovea/parallel/mesh_shape.h"
#include "fovea/plan/trace.h"
#include "fovea/train/recipe/config.h"

namespace fovea::plan {

// Bytes of what a rank holds between steps.
struct StateMemory {
  int64_t parameters = 0;  // with ZeRO 3 the own part and what no piece has
  int64_t gradients = 0;   // the buffer of them
  int64_t optimizer = 0;   // moments
  int64_t average = 0;     // of the weights

  int64_t state() const { return parameters + gradients + optimizer + average; }
};

// Bytes of one rank's tensors on the device that computes.
struct RankMemory : StateMemory {
  int64_t activations = 0;  // that wait for backward, with the inputs of a micro-batch
  // At the worst moment of the step, on top of the state: activations, gathered weights, what is on
  // its way.
  int64_t working = 0;

  // With parallel.cpu_offload: what is in the memory of the host instead.
  StateMemory host;
  int64_t host_working = 0;  // of the optimizer's update, on top of that

  int64_t peak() const { return state() + working; }
  int64_t host_peak() const { return host.state() + host_working; }
};

// Note [Rehearsal]
// The code that trains runs here as well: MeshState, prepare_step and apply_step, with tensors of
// the meta device, which have a shape and no memory, and groups that note each collective and move
// nothing. So shapes, parts, the sequence of
// collectives and the lifetime of every tensor are those of training, and no formula repeats them.
// Three micro-batches stand for all: those between the first and the last are alike, also where a
// loss of the whole batch goes over them twice. The step is the second one, since the first learns
// the order in which blocks are gathered.
struct Rehearsal {
  parallel::MeshShape mesh;
  int64_t rank = 0;
  int64_t micro_batch_size = 0;   // samples of a pass
  int64_t num_micro_batches = 0;  // of a step
  int64_t local_batch_size = 0;   // samples of a step on this rank
  int64_t num_parameters = 0;     // of the whole model
  std::vector<Group> groups;
  RankMemory memory;

  // Calls body(event) for every event of the step.
  template <class Body>
  void for_each(Body body) const {
    for (const auto& stretch : stretches_) {
      for (int64_t i = 0; i < stretch.times; ++i) {
        for (const auto& event : stretch.events) body(event);
      }
    }
  }
  // By axis; collectives of one rank's step.
  std::map<std::string, parallel::CollectiveCounts> counts() const;
  double flops() const;  // of products, of the step

 private:
  friend Rehearsal rehearse(const train::TrainConfig&, const parallel::MeshShape&, int64_t rank,
                            Backend backend);
  void take(const std::vector<Event>& events, int64_t rehearsed);

  struct Stretch {
    std::vector<Event> events;
    int64_t times = 1;
  };
  std::vector<Stretch> stretches_;
};

// config.parallel is that of `mesh`. Throws ConfigError for a recipe whose step cannot be rehearsed
// (an operation without shapes on the meta device), and what building the model throws. Not in two
// threads at a time.
Rehearsal rehearse(const train::TrainConfig& config, const parallel::MeshShape& mesh, int64_t rank,
                   Backend backend = Backend::kNccl);

// Throws Error where the ranks' sequences of collectives along an axis differ: they would wait for
// each other for ever. Names the axis, the position and both collectives.
void check_same_sequence(const Rehearsal& a, const Rehearsal& b);

}  // namespace fovea::plan
