// What passes of a recipe's model take on the device that it runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fovea/data/loader_setup.h"
#include "fovea/train/recipe/config.h"

namespace fovea::elastic {

// A pass: `concurrent` workers of a device, each with local_batch samples, at the same time.
struct PassShape {
  int64_t local_batch = 1;
  int64_t concurrent = 1;
};

// Of several workers: until all are done, parts as the mean of them has them.
struct PassTimes {
  double data_ms = 0;  // waiting for the loader, and its batch as tensors on the device
  double forward_ms = 0;
  double backward_ms = 0;
  double update_ms = 0;  // all else of the step, which it has once: the optimizer, clipping, sums

  double total_ms() const { return data_ms + forward_ms + backward_ms + update_ms; }
};

// Each part's median.
PassTimes median_of(std::vector<PassTimes> steps);

// Samples of an epoch, or of its smallest set: no batch has more.
int64_t largest_batch_of(const data::LoaderSetup& data);

// Note [Measured passes]
// Steps are those of a training: its loader with its transforms and threads, prepare_step and
// apply_step, with clocks about loading, the task's loss and backward. The loader keeps one batch
// ahead, so that it has no more than the step before to make the next one in, as in a long run. On
// a device that works in the background each clock waits for it; parts are then scaled to what
// whole steps take without clocks, recorded as a graph where the recipe says so. Passes of several
// workers are those of trainer.concurrent_passes (step/pass_workers.h), all of a step at once.
class PassMeter {
 public:
  // In one process, on config.device. data: the recipe's, opened (open_training_setup). Throws
  // ConfigError as a training would.
  PassMeter(const train::TrainConfig& config, data::LoaderSetup data);
  ~PassMeter();
  PassMeter(const PassMeter&) = delete;
  PassMeter& operator=(const PassMeter&) = delete;

  // Most workers of the device at the same time that are of use; 1 where the recipe's passes come
  // one after another.
  int64_t most_concurrent() const;

  // Steps of one pass of each worker, after `warmup` of them; weights hardly move.
  std::vector<PassTimes> measure(const PassShape& shape, int64_t warmup, int64_t steps);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fovea::elastic
