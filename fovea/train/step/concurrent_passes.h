// trainer.concurrent_passes: how many passes of a step are computed at once.
//
// Note [Found at the start]
// `auto` takes what is fastest here, which no number changes a bit of: the first steps are taken
// with 1, 2, 4 ... passes at once, by turns and a few times each, and the time of their passes is
// compared by sample. More than one at once has to gain something: it takes memory for as many.
// Where a profile has measured them (state/concurrent_start.h) nothing is tried: each step has the
// number that fits its passes, as shares and batches come and go.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "fovea/train/step/pass_workers.h"

namespace fovea::train {

class ConcurrentPasses {
 public:
  static constexpr double kLeastGain = 0.03;  // of the time of one at once
  // How many at once are best for `count` passes of so many samples each.
  using Choose = std::function<int64_t(int64_t count, int64_t samples)>;

  // number: how many at once; 0: found at the start, of so many at most. Those of one process.
  ConcurrentPasses(int64_t number, int64_t most, c10::Device device);
  // Chosen for each step, of so many at most.
  ConcurrentPasses(Choose choose, int64_t most, c10::Device device);

  // At once in the next step, of `count` passes, the largest of so many samples: a number that was
  // given whatever count there is, so that each pass has the same share of the threads.
  int64_t at_once(int64_t count, int64_t samples) const {
    const auto most = candidate().number;
    if (is_given_) return most;
    const auto number = choose_ && count > 1 ? choose_(count, samples) : most;
    return std::clamp<int64_t>(number, 1, std::clamp<int64_t>(count, 1, most));
  }
  bool is_settled() const { return candidates_.size() == 1; }

  // Calls `passes`, which takes the `count` passes of a step, of so many samples.
  void run(int64_t count, int64_t samples, const std::function<void()>& passes);
  PassWorkers& workers();

  // Memory ran out in so many passes at once. False where no fewer are to be tried: there are none,
  // or a number was given.
  bool take_fewer(int64_t failed);

 private:
  struct Candidate {
    int64_t number = 1;
    double least = 0;  // seconds a sample; 0: not measured
  };

  // Whose turn it is.
  const Candidate& candidate() const {
    return candidates_[static_cast<size_t>(num_steps_ / kStepsOfTurn) % candidates_.size()];
  }
  void settle();

  static constexpr int64_t kStepsOfTurn = 2;  // of which the last one counts

  c10::Device device_;
  bool is_given_;
  Choose choose_ = {};  // empty: what the candidates have come to
  std::vector<Candidate> candidates_;
  int64_t num_steps_ = 0;  // taken for the choice
  std::unique_ptr<PassWorkers> workers_;
};

}  // namespace fovea::train
