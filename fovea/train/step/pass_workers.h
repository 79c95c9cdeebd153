// Threads that compute passes of a step at the same time, on one device.
//
// Note [Passes at once]
// The passes of a step do not depend on each other: a forward changes nothing in the model, what is
// drawn follows from seed, step and row, and modes and contexts are a thread's own. So several
// threads run them with one model. What a pass would add to the gradients is captured instead, of
// each worker its own, and added in the order of the passes by the worker that has it, in its turn.
// Each parameter gets one addition a pass either way, of the same numbers: the sums are those of
// passes that come one after another, to the bit. A worker holds one pass at a time, so as many
// passes' activations and gradients are in memory as there are workers. On a CPU all have equal
// shares of the threads of kernels, whichever of them has a pass or none: what of libtorch makes
// other bits with other threads makes the same ones each time. On a GPU each has a stream.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "fovea/nn/forward_context.h"

namespace fovea::train {

class PassWorkers {
 public:
  // `number` of them. On a CPU those of a run() share the threads that kernels have where that is
  // called.
  PassWorkers(int64_t number, c10::Device device);
  ~PassWorkers();
  PassWorkers(const PassWorkers&) = delete;
  PassWorkers& operator=(const PassWorkers&) = delete;

  int64_t number() const { return std::ssize(threads_); }

  using Body = std::function<void(int64_t pass)>;
  // Calls compute(i) for each pass of [0, count) in `at_once` of the workers, and add(i) behind it
  // in the same one, in the order of the passes and one at a time. With the caller's modes and
  // context; what they enqueue on a GPU is behind what the caller has, and before what it enqueues
  // after. Returns when all is done. An exception ends it once every worker has left what it was
  // at; that of the first pass that threw is thrown, so that it does not depend on timing.
  void run(int64_t at_once, int64_t count, const Body& compute, const Body& add);

 private:
  // What one call of run() has.
  struct Run {
    int64_t at_once, count;
    const Body& compute;
    const Body& add;
    int threads_each;  // of a worker's kernels
    at::ThreadLocalState modes;
    nn::ForwardContext context;
    std::optional<c10::Event> begun, added;  // on a GPU: on the caller's stream, on the adder's
    int64_t next = 0;                        // pass that is begun next
    int64_t num_added = 0;
    int64_t first_failed;
    std::exception_ptr failure;
  };

  void stop();
  void live(int64_t worker);
  void take_part(Run& run, int64_t worker);
  void take_passes(Run& run, const std::optional<c10::Stream>& stream);
  std::optional<int64_t> begin_pass(Run& run);
  bool await_turn(Run& run, int64_t pass);
  void end_turn(Run& run);
  void fail_at(Run& run, int64_t pass);

  c10::Device device_;
  std::vector<c10::Stream> streams_;  // by worker, on a GPU
  std::mutex mutex_;
  std::condition_variable wake_, turn_, idle_;
  Run* run_ = nullptr;
  int64_t num_runs_ = 0;
  int64_t num_busy_ = 0;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace fovea::train
