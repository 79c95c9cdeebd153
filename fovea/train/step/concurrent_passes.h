// trainer.concurrent_passes: how many passes of a step are computed at once.
//
// Note [Found at the start]
// `auto` takes what is fastest here, which no number changes a bit of: the first steps are taken
// with 1, 2, 4 ... passes at once, by turns and a few times each, and the time of their passes is
// compared by sample. More than one at once has to gain something: it takes memory for as many.
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
  // number: how many at once; 0: found at the start, of so many at most. Those of one process.
  ConcurrentPasses(int64_t number, int64_t most, c10::Device device);

  // At once in the next step, of `count` passes: a number that was given whatever count there is,
  // so that each pass has the same share of the threads.
  int64_t at_once(int64_t count) const {
    const auto number = candidate().number;
    return is_given_ ? number : std::clamp<int64_t>(count, 1, number);
  }
  bool is_settled() const { return candidates_.size() == 1; }

  // Calls `passes`, which takes the `count` passes of a step, of so many samples.
  void run(int64_t count, int64_t samples, const std::function<void()>& passes);
  PassWorkers& workers();

  // Memory ran out in several passes at once. False where no fewer are to be tried: there are none,
  // or a number was given.
  bool take_fewer();

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
  std::vector<Candidate> candidates_;
  int64_t num_steps_ = 0;  // taken for the choice
  std::unique_ptr<PassWorkers> workers_;
};

}  // namespace fovea::train
