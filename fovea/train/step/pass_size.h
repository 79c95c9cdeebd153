// trainer.micro_batch_size: auto. How many samples a pass has, found by trying.
//
// Note [Passes that are too large]
// A step whose passes run out of memory changes no weight: its gradients are cleared and it is
// taken anew with passes of half the size, of the same samples. Ranks that exchange gradients only
// agree on it: until the size has held for a few steps (the optimizer takes its own memory in the
// first one) they exchange nothing before each has told the others that its passes are done.
// Afterwards, and where ranks meet within a pass (shards, tensor and context parallel), nobody
// could tell those who wait: the smaller size is kept, and the run ends, to go on with it at the
// next start.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <string>

#include "fovea/core/error.h"
#include "fovea/parallel/communicator.h"

namespace fovea::train {

// Memory ran out, and not for good: the next start has smaller passes.
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kOutOfMemory; }
};

class PassSize {
 public:
  // size: what to begin with; 0: the whole batch. on_change is told of each smaller size, of the
  // one before, why, and whether the run goes on with it.
  using OnChange =
      std::function<void(int64_t size, int64_t from, const std::string& fault, bool goes_on)>;
  explicit PassSize(int64_t size = 0, OnChange on_change = {});

  int64_t size() const { return size_; }
  bool is_settled() const { return num_successes_ >= kTrials; }
  void add_success() { ++num_successes_; }

  // from: samples of the passes that did not fit. Throws OutOfMemoryError where that was one sample
  // and, with the smaller size kept, unless the step can be taken anew.
  void halve(int64_t from, const std::string& fault, bool can_retry);

 private:
  static constexpr int64_t kTrials = 3;

  int64_t size_;
  OnChange on_change_;
  int64_t num_successes_ = 0;
};

// What ranks tell each other about one try at a step.
class PassTrial {
 public:
  // Another rank's passes did not fit.
  struct TooLarge {};

  PassTrial(parallel::Communicator& ranks, int64_t size) : ranks_(ranks), size_(size) {}

  // Throws TooLarge on the ranks whose passes did fit, where those of another did not. Collective,
  // with say_too_large of those.
  void agree();
  // All passes are done: what fails from now on fails the step.
  void close() { is_closed_ = true; }
  bool is_closed() const { return is_closed_; }
  // -> the largest pass of all ranks. After agree() has thrown it is known.
  int64_t say_too_large();

 private:
  void tell(bool is_too_large);

  parallel::Communicator& ranks_;
  int64_t size_;
  int64_t most_ = 0;  // 0: not known
  bool is_closed_ = false;
};

// What a run keeps of it in a file of its folder; 0: there is none. Throws CheckpointError for a
// file that holds something else.
int64_t kept_pass_size(const std::string& path);
void keep_pass_size(const std::string& path, int64_t size);

}  // namespace fovea::train
