// What one rank does in a step, in its order: work, and collectives that start and end.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/parallel/communicator.h"

namespace fovea::plan {

// A group of ranks that talk to each other.
struct Group {
  std::string axis;  // "tp", "dp_shard", "dp_replicate x dp_shard", "world"
  std::vector<int64_t> ranks;
};

struct Event {
  enum class Kind {
    kMicroBatch,  // the next one begins
    kUpdate,      // the optimizer's update begins
    kStart,       // a collective starts
    kWait,        // until collective `id` is over
    kEnd,         // of the step
  };
  Kind kind = Kind::kStart;
  // Work since the event before.
  double flops = 0;          // of products, 2 a multiply-add
  double fp8_flops = 0;      // of those in FP8
  int64_t made_bytes = 0;    // of the tensors that were made
  int64_t update_bytes = 0;  // that the optimizer's update reads and writes in place

  // Of kStart; kWait has the id alone.
  int64_t id = 0;
  size_t group = 0;
  parallel::Collective collective = parallel::Collective::kBarrier;
  int64_t bytes = 0;       // of the larger side, as Communicator counts
  std::string dtype = {};  // "Float"
  std::string what = {};

  // Whether another rank's collective is the other side of this one.
  bool matches(const Event& other) const {
    return kind == other.kind && collective == other.collective && bytes == other.bytes &&
           dtype == other.dtype && what == other.what;
  }
};

// Whose collectives they are: those of NCCL, or of ranks of one machine in its memory. A
// reduce-scatter that its back end has no sum for is one of exchanged parts, which take memory.
enum class Backend { kNccl, kHost };

// Counts the work of the thread that it is made in, from then on.
class Trace {
 public:
  explicit Trace(std::function<int64_t()> made_bytes);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void add(Event event);
  void clear();
  const std::vector<Event>& events() const { return events_; }

  // Groups are told apart by their ranks. Their collectives leave every tensor as it is.
  std::shared_ptr<parallel::Communicator> make_group(const std::vector<int64_t>& ranks,
                                                     int64_t own_rank, Backend backend);
  std::vector<Group>& groups() { return groups_; }

  void add_product(double flops, bool is_fp8) { (is_fp8 ? fp8_flops_ : flops_) += flops; }
  void add_update(int64_t bytes) { update_bytes_ += bytes; }

 private:
  std::function<int64_t()> made_bytes_;
  std::vector<Event> events_;
  std::vector<Group> groups_;
  double flops_ = 0, fp8_flops_ = 0;  // since the last event
  int64_t made_before_ = 0, update_bytes_ = 0;
  uint64_t callback_ = 0;
};

}  // namespace fovea::plan
